#include "common/sums/grid.h"

#include <algorithm>

#include "common/compress/codec.h"
#include "common/wire/layout.h"

namespace gradwire {
namespace {

// Below this share per owner, a message more costs more than a longer one.
constexpr uint64_t kLeastShare = 16 << 10;

uint64_t CeilDivide(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

}  // namespace

uint64_t Grid::AlignmentOf(v1::DType dtype) {
  const Coding* coding = CodingOf(dtype);
  return coding == nullptr ? kPlainAlignment : coding->unit() * ElementBytes(dtype);
}

Grid::Grid(Bucket bucket, uint64_t bytes, uint64_t chunk_bytes, int owners, uint64_t alignment)
    : first_owner_(bucket.value() % owners), owners_(owners), bytes_(bytes) {
  if (bytes == 0) return;
  uint64_t count = CeilDivide(bytes, chunk_bytes);
  if (bytes >= owners * kLeastShare) count = CeilDivide(count, owners) * owners;
  piece_bytes_ = CeilDivide(CeilDivide(bytes, count), alignment) * alignment;
  pieces_ = CeilDivide(bytes, piece_bytes_);
}

uint64_t Grid::Bytes(size_t piece) const { return std::min(piece_bytes_, bytes_ - Offset(piece)); }

int Grid::Owner(size_t piece) const { return static_cast<int>((first_owner_ + piece) % owners_); }

absl::optional<size_t> Grid::Find(uint64_t offset, uint64_t bytes) const {
  if (pieces_ == 0 || offset % piece_bytes_ != 0) return absl::nullopt;
  const size_t piece = offset / piece_bytes_;
  if (piece >= pieces_ || bytes != Bytes(piece)) return absl::nullopt;
  return piece;
}

}  // namespace gradwire
