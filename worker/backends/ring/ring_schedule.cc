#include "worker/backends/ring/ring_schedule.h"

#include <algorithm>

namespace gradwire {
namespace {

// Small enough that hops overlap, large enough that a message's cost is small.
constexpr uint64_t kParcelBytes = 512 << 10;

}  // namespace

RingSchedule::RingSchedule(Bucket bucket, const BucketSpec& spec, const FoldBlocks& blocks,
                           int world_size)
    : world_size_(world_size),
      hops_((IsBroadcast(spec) ? 1 : 2) * (world_size - 1)),
      first_mean_hop_(IsBroadcast(spec) ? 0 : world_size - 1),
      parcels_(world_size) {
  if (!IsBroadcast(spec)) {
    for (const FoldRange& range : blocks.Cut(bucket, 0, spec.bytes)) Add(range);
    return;
  }
  for (uint64_t offset = 0; offset < spec.bytes; offset += kParcelBytes) {
    Add({offset, std::min(kParcelBytes, spec.bytes - offset), spec.root.value()});
  }
}

void RingSchedule::Add(const FoldRange& range) {
  std::vector<RingParcel>& parcels = parcels_[static_cast<size_t>(range.first_rank)];
  if (parcels.empty() || parcels.back().bytes + range.bytes > kParcelBytes) parcels.emplace_back();
  parcels.back().ranges.push_back(range);
  parcels.back().bytes += range.bytes;
}

const std::vector<RingParcel>& RingSchedule::SentBy(Rank sender, int hop) const {
  return parcels_[static_cast<size_t>((sender.value() + 2 * world_size_ - hop) % world_size_)];
}

uint64_t RingSchedule::BytesSentBy(Rank sender) const {
  uint64_t bytes = 0;
  for (int hop = 0; hop < hops_; ++hop) {
    for (const RingParcel& parcel : SentBy(sender, hop)) bytes += parcel.bytes;
  }
  return bytes;
}

}  // namespace gradwire
