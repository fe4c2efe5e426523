#include "common/fold/blocks.h"

#include <algorithm>

namespace gradwire {
namespace {

constexpr uint64_t kLeast = 4 << 10;
constexpr uint64_t kMost = 16 << 10;
constexpr uint64_t kBlocksOfRank = 8;

uint64_t BlockElements(uint64_t elements, int world_size) {
  uint64_t block = kMost;
  while (block > kLeast && elements / block < kBlocksOfRank * world_size) block /= 2;
  return block;
}

}  // namespace

FoldBlocks::FoldBlocks(absl::Span<const BucketSpec> buckets, int world_size)
    : world_size_(world_size) {
  uint64_t elements = 0;
  for (const BucketSpec& bucket : buckets) {
    const uint64_t element_bytes = ElementBytes(bucket.dtype);
    starts_.push_back({elements, element_bytes});
    if (!IsBroadcast(bucket)) elements += bucket.bytes / element_bytes;
  }
  block_elements_ = BlockElements(elements, world_size);
}

std::vector<FoldRange> FoldBlocks::Cut(Bucket bucket, uint64_t offset, uint64_t bytes) const {
  const BucketStart& start = starts_[static_cast<size_t>(bucket.value())];
  std::vector<FoldRange> ranges;
  for (const uint64_t end = offset + bytes; offset < end;) {
    const uint64_t element = start.first_element + offset / start.element_bytes;
    const uint64_t block = element / block_elements_;
    const uint64_t left = (block_elements_ - element % block_elements_) * start.element_bytes;
    const uint64_t count = std::min(left, end - offset);
    ranges.push_back({offset, count, static_cast<int>(block % world_size_)});
    offset += count;
  }
  return ranges;
}

}  // namespace gradwire
