#ifndef GRADWIRE_WORKER_BACKENDS_RING_RING_SCHEDULE_H_
#define GRADWIRE_WORKER_BACKENDS_RING_RING_SCHEDULE_H_

#include <cstdint>

namespace gradwire {

// Ring all-reduce (Patarasuk & Yuan 2009): a bucket is cut into W segments,
// which go round twice, in 2(W-1) hops. On hop h, rank r sends segment
// (r - h) mod W to rank r + 1: for h < W-1 the sum so far, then the mean. Each
// rank sends 2(W-1)/W of the bucket. Pure arithmetic.
class RingSchedule {
 public:
  // `bytes` is the bucket's size, a multiple of `element_bytes`; `world_size` at least 1.
  RingSchedule(uint64_t bytes, int world_size, uint64_t element_bytes)
      : bytes_(bytes), world_size_(world_size), element_bytes_(element_bytes) {}

  struct Segment {
    uint64_t offset = 0;  // bytes from the bucket's start
    uint64_t bytes = 0;   // 0 if there are fewer elements than ranks
  };
  // Whole elements; the first (elements mod W) segments are one element longer.
  Segment SegmentAt(int index) const;

  // What `sender` sends on hop `hop`.
  Segment SentBy(int sender, int hop) const;

  int hops() const { return 2 * (world_size_ - 1); }
  // On hops below this one, sums travel; the receiver adds its own term.
  int first_mean_hop() const { return world_size_ - 1; }

 private:
  uint64_t bytes_;
  int world_size_;
  uint64_t element_bytes_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_RING_RING_SCHEDULE_H_
