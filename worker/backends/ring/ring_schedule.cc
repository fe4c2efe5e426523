#include "worker/backends/ring/ring_schedule.h"

#include <algorithm>

namespace gradwire {

RingSchedule::Segment RingSchedule::SegmentAt(int index) const {
  const uint64_t elements = bytes_ / element_bytes_;
  const uint64_t base = elements / world_size_;
  const uint64_t longer = elements % world_size_;
  const uint64_t i = index;
  return {element_bytes_ * (i * base + std::min(i, longer)),
          element_bytes_ * (base + (i < longer ? 1 : 0))};
}

RingSchedule::Segment RingSchedule::SentBy(int sender, int hop) const {
  return SegmentAt((sender + 2 * world_size_ - hop) % world_size_);
}

}  // namespace gradwire
