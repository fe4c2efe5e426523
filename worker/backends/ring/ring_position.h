#ifndef GRADWIRE_WORKER_BACKENDS_RING_RING_POSITION_H_
#define GRADWIRE_WORKER_BACKENDS_RING_RING_POSITION_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/wire/chunk.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"
#include "worker/backends/ring/ring_schedule.h"
#include "worker/backends/transfer.h"

namespace gradwire {

// One bucket on its way past one rank: what the rank sends, expects and computes. Offsets
// and sizes are in bytes on the wire. No threads and no gRPC streams in here.
//
//   float32   wire memory = the result: sums and means are made where they end up
//   halves    wire memory = the caller's: what is sent lies there, and means are
//             widened from it into the result
//   bytes     wire memory = the result; the root's go round once
//
// The ranks of one worker share the wire memory and the result. That is safe: a
// block's sum is at one rank at a time, and leaves a rank before the next one changes it.
class RingPosition {
 public:
  // `transfer` and `schedule`, that of the bucket, outlive this object. `half_memory` has the
  // bucket's bytes for halves, valid as long as this object, and is not used for other types.
  RingPosition(const Transfer* transfer, const RingSchedule* schedule, Rank rank, int world_size,
               uint8_t* half_memory);

  Rank rank() const { return rank_; }
  Rank left() const;
  // What this rank sends on hop 0.
  const std::vector<RingParcel>& first_sent() const { return schedule_.SentBy(rank_, 0); }
  // Whether what comes in on `hop` goes on to the right.
  bool ForwardsFrom(int hop) const { return hop + 1 < schedule_.hops(); }

  // The rank's terms. Bytes of another rank than the root's need none.
  void SetTerms(absl::Span<const uint8_t> terms) { terms_ = terms; }
  // Whether chunks can be taken.
  bool is_ready() const { return !terms_.empty() || (is_broadcast() && rank_ != spec_.root); }

  // What a chunk of `bytes` bytes from the left holds, which CheckRingChunk found right.
  // InvalidArgument if it is not the next one of its hop.
  absl::StatusOr<const RingParcel*> NextOf(const ChunkHeader& header, uint64_t bytes) const;
  // Adds or copies what NextOf gave for `hop`. True if a finite value became infinite.
  bool Take(const RingParcel& parcel, int hop, const Pieces& payload);
  // Gets the rank's own terms ready for hop 0. Returns as Take.
  bool PrepareTerms(const RingParcel& parcel);
  // What to send on `hop`, which PrepareTerms or Take made.
  Pieces Sent(const RingParcel& parcel, int hop) const;

  // For a world of one rank: the mean is its own terms, rounded for the wire. As Take.
  bool AverageAlone();

  // Bytes that have not come from the left, have not been added or copied, have not been
  // sent. Kept by the exchange, under its lock.
  uint64_t to_receive = 0;
  uint64_t to_take = 0;
  uint64_t to_send = 0;

 private:
  bool is_broadcast() const { return IsBroadcast(spec_); }
  bool is_half() const { return spec_.dtype != v1::DTYPE_FLOAT32 && !is_broadcast(); }
  bool TakeRange(const FoldRange& range, int hop, const Pieces& payload);
  const float* TermsAt(uint64_t offset) const;
  absl::Span<float> ResultAt(uint64_t offset, uint64_t bytes);

  const BucketSpec spec_;
  const absl::Span<uint8_t> result_;
  const Rank rank_;
  const int world_size_;
  const RingSchedule& schedule_;
  uint8_t* const wire_;
  absl::Span<const uint8_t> terms_;
  std::vector<size_t> taken_;  // of each hop, how many parcels came in
};

// Judges a chunk that came from another worker, whatever bucket it is of. InvalidArgument or
// DataLoss as JudgeHeader and CheckPayload; InvalidArgument too for a chunk of another
// sender than a left neighbour, of a hop that there is not, or without bytes.
absl::Status CheckRingChunk(const Chunk& chunk, const View& view,
                            const std::vector<BucketSpec>& buckets);

// The rank that `sender` sends to, and the one that sends to `receiver`.
Rank RightOf(Rank sender, int world_size);
Rank LeftOf(Rank receiver, int world_size);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_RING_RING_POSITION_H_
