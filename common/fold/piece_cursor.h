#ifndef GRADWIRE_COMMON_FOLD_PIECE_CURSOR_H_
#define GRADWIRE_COMMON_FOLD_PIECE_CURSOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/wire/chunk.h"

namespace gradwire {

// Walks Pieces element by element or run by run. Not thread-safe. The pieces
// outlive the cursor and hold whole elements in total.
class PieceCursor {
 public:
  // `element_bytes` is at most 4.
  PieceCursor(const Pieces& pieces, size_t element_bytes)
      : pieces_(&pieces), element_bytes_(element_bytes) {
    SkipEmpty();
  }

  // Where the next element starts; not to be called at the end.
  const uint8_t* data() const { return (*pieces_)[index_].data() + used_; }

  // Elements from data() on that lie whole in its piece; 0 if the next one straddles.
  size_t run() const { return ((*pieces_)[index_].size() - used_) / element_bytes_; }

  void Advance(size_t elements) { Skip(elements * element_bytes_); }

  // Puts the next element together, goes behind it, and returns where it is: in
  // the cursor's own memory until the next call.
  const uint8_t* TakeElement() {
    for (size_t have = 0; have < element_bytes_;) {
      const size_t left = (*pieces_)[index_].size() - used_;
      const size_t take = std::min(left, element_bytes_ - have);
      std::memcpy(element_ + have, data(), take);
      have += take;
      Skip(take);
    }
    return element_;
  }

 private:
  void Skip(size_t bytes) {
    used_ += bytes;
    SkipEmpty();
  }

  void SkipEmpty() {
    while (index_ < pieces_->size() && used_ == (*pieces_)[index_].size()) {
      ++index_;
      used_ = 0;
    }
  }

  const Pieces* pieces_;
  size_t element_bytes_;
  size_t index_ = 0;
  size_t used_ = 0;
  uint8_t element_[4];
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_FOLD_PIECE_CURSOR_H_
