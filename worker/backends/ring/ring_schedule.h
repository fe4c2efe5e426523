#ifndef GRADWIRE_WORKER_BACKENDS_RING_RING_SCHEDULE_H_
#define GRADWIRE_WORKER_BACKENDS_RING_RING_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "common/base/ids.h"
#include "common/fold/blocks.h"
#include "common/wire/layout.h"

namespace gradwire {

// What goes in one message: some ranges of a bucket that take the same way.
struct RingParcel {
  std::vector<FoldRange> ranges;  // ascending
  uint64_t bytes = 0;             // of all
};

// Ring all-reduce (Patarasuk & Yuan 2009) of one bucket: all ranges whose sum begins with rank
// s go round twice from s on, in 2(W-1) hops, so on hop h rank r sends to rank r + 1 those
// of rank (r - h) mod W: for h < W-1 the sum so far, then the mean. A bucket of bytes goes round
// once, from its root on. Pure arithmetic.
class RingSchedule {
 public:
  // `blocks` are those of the bucket's layout.
  RingSchedule(Bucket bucket, const BucketSpec& spec, const FoldBlocks& blocks, int world_size);

  // What `sender` sends on `hop`, in this order.
  const std::vector<RingParcel>& SentBy(Rank sender, int hop) const;
  // The same over all hops.
  uint64_t BytesSentBy(Rank sender) const;

  int hops() const { return hops_; }
  // On hops below this one, sums travel; the receiver adds its own term.
  int first_mean_hop() const { return first_mean_hop_; }

 private:
  void Add(const FoldRange& range);

  int world_size_;
  int hops_;
  int first_mean_hop_;
  std::vector<std::vector<RingParcel>> parcels_;  // by the rank that they begin with
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_RING_RING_SCHEDULE_H_
