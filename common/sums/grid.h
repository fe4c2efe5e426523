#ifndef GRADWIRE_COMMON_SUMS_GRID_H_
#define GRADWIRE_COMMON_SUMS_GRID_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "gradwire/v1/chunk.pb.h"

namespace gradwire {

// How one bucket is cut into pieces, and which of `owners` aggregators sums
// each. Everyone computes the same from the view and the layout:
//
//   pieces    n = ceil(bytes / chunk_bytes); a bucket of at least owners × 16 KiB
//             is cut into a multiple of `owners`, so that shares are equal
//   piece i   starts at i × p, where p = ceil(bytes / n) rounded up to 64 bytes, or to whole
//             units of a codec; the last one is shorter
//   owner     of piece i of bucket b: (b + i) mod owners, so that small buckets
//             are spread too
class Grid {
 public:
  // `alignment`: what pieces are multiples of, in bytes; AlignmentOf the bucket's dtype.
  Grid(Bucket bucket, uint64_t bytes, uint64_t chunk_bytes, int owners,
       uint64_t alignment = kPlainAlignment);

  // Whole cache lines, whole elements.
  static constexpr uint64_t kPlainAlignment = 64;
  static uint64_t AlignmentOf(v1::DType dtype);

  size_t pieces() const { return pieces_; }
  uint64_t Offset(size_t piece) const { return piece * piece_bytes_; }
  uint64_t Bytes(size_t piece) const;
  int Owner(size_t piece) const;
  // How many pieces of its owner's are before it in the bucket; this modulo the
  // number of connections to the owner says which of them carries the piece.
  size_t NumberInShare(size_t piece) const { return piece / owners_; }

  // The piece that starts at `offset` and is `bytes` long; none if there is none.
  absl::optional<size_t> Find(uint64_t offset, uint64_t bytes) const;

 private:
  int first_owner_;
  int owners_;
  uint64_t bytes_;
  uint64_t piece_bytes_ = 0;
  size_t pieces_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_SUMS_GRID_H_
