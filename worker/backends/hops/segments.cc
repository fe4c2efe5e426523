#include "worker/backends/hops/segments.h"

#include <algorithm>

namespace gradwire {
namespace {

// Small enough that hops overlap, large enough that a message's cost is small.
constexpr uint64_t kParcelBytes = 512 << 10;

}  // namespace

Segments Segments::Even(const BucketSpec& spec, int count) {
  Segments segments(count);
  const uint64_t element_bytes = ElementBytes(spec.dtype);
  const uint64_t elements = spec.bytes / element_bytes;
  uint64_t offset = 0;
  for (int segment = 0; segment < count; ++segment) {
    const bool longer = static_cast<uint64_t>(segment) < elements % count;
    const uint64_t end = offset + element_bytes * (elements / count + (longer ? 1 : 0));
    while (offset < end) {
      const uint64_t bytes = std::min(kParcelBytes, end - offset);
      segments.Add(segment, {offset, bytes, segment});
      offset += bytes;
    }
  }
  return segments;
}

Segments Segments::OfFold(Bucket bucket, const BucketSpec& spec, const FoldBlocks& blocks,
                          int world_size) {
  Segments segments(world_size);
  for (const FoldRange& range : blocks.Cut(bucket, 0, spec.bytes)) {
    segments.Add(range.first_rank, range);
  }
  return segments;
}

void Segments::Add(int segment, const FoldRange& range) {
  std::vector<Parcel>& parcels = segments_[static_cast<size_t>(segment)];
  if (parcels.empty() || parcels.back().bytes + range.bytes > kParcelBytes) {
    places_[range.offset] = {segment, parcels.size()};
    parcels.emplace_back();
  }
  parcels.back().ranges.push_back(range);
  parcels.back().bytes += range.bytes;
}

const std::vector<Parcel>& Segments::Of(int segment) const {
  return segments_[static_cast<size_t>(segment)];
}

uint64_t Segments::BytesOf(int segment) const {
  uint64_t bytes = 0;
  for (const Parcel& parcel : Of(segment)) bytes += parcel.bytes;
  return bytes;
}

absl::optional<Segments::Place> Segments::Find(uint64_t offset) const {
  const auto found = places_.find(offset);
  return found == places_.end() ? absl::nullopt : absl::make_optional(found->second);
}

}  // namespace gradwire
