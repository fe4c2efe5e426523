#ifndef GRADWIRE_COMMON_FOLD_BLOCKS_H_
#define GRADWIRE_COMMON_FOLD_BLOCKS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/wire/chunk.h"
#include "common/wire/layout.h"

namespace gradwire {

// A part of a bucket within one block: bytes on the wire from the bucket's start, and the rank at
// which its sum begins.
struct FoldRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  int first_rank = 0;
};

// Where the fold of a layout begins. The flat gradient (all averaged buckets, in order) is cut into
// blocks of E elements. The mean in block i is, in float32 and in this order, with s = i mod W,
//
//   ((t_s + t_{s+1}) + … + t_{W-1} + t_0 + … + t_{s-1}) × 1/W
//
// A ring computes this naturally, with block i starting at rank s; a coordinator or an aggregator
// can do it as easily. E depends only on the number of elements and W: it is the power of two that
// gives each rank at least 8 blocks, but at least 4 Ki and at most 16 Ki. So the mean does not
// depend on how the gradient is cut into buckets or messages.
class FoldBlocks {
 public:
  // `buckets` are all buckets of one layout, in float32 or with the type on the wire.
  FoldBlocks(absl::Span<const BucketSpec> buckets, int world_size);

  uint64_t block_elements() const { return block_elements_; }

  // Cuts [offset, offset + bytes) of an averaged bucket at block boundaries; ascending. `offset`
  // and `bytes` must be whole elements within the bucket.
  std::vector<FoldRange> Cut(Bucket bucket, uint64_t offset, uint64_t bytes) const;

 private:
  struct BucketStart {
    uint64_t first_element = 0;  // in the flat gradient
    uint64_t element_bytes = 0;
  };

  const int world_size_;
  std::vector<BucketStart> starts_;  // by bucket
  uint64_t block_elements_;
};

// Iterates over ByteSpans by element or by run. Not thread-safe. The pieces must outlive the cursor
// and have a whole number of elements in total.
class SpanCursor {
 public:
  // `element_bytes` is at most 4.
  SpanCursor(const ByteSpans& pieces, size_t element_bytes)
      : pieces_(&pieces), element_bytes_(element_bytes) {
    SkipEmpty();
  }

  // Returns the start of the next element; must not be called at the end.
  const uint8_t* data() const { return (*pieces_)[index_].data() + used_; }

  // Returns the number of whole elements from data() on in its piece; 0 if the next one straddles.
  size_t run() const { return ((*pieces_)[index_].size() - used_) / element_bytes_; }

  void Advance(size_t elements) { Skip(elements * element_bytes_); }

  // Assembles the next element, moves past it, and returns its address: in the cursor's own memory
  // until the next call.
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

  const ByteSpans* pieces_;
  size_t element_bytes_;
  size_t index_ = 0;
  size_t used_ = 0;
  uint8_t element_[4];
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_FOLD_BLOCKS_H_
