#ifndef GRADWIRE_WORKER_BACKENDS_RING_RING_REDUCTION_H_
#define GRADWIRE_WORKER_BACKENDS_RING_RING_REDUCTION_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/wire/chunk.h"
#include "common/wire/layout.h"
#include "common/wire/slice_lender.h"
#include "common/wire/view.h"
#include "worker/backends/ring/ring_schedule.h"
#include "worker/backends/transfer.h"

namespace gradwire {

// Judges a chunk that came from the left, whatever bucket it is of. InvalidArgument or
// DataLoss as JudgeHeader and CheckPayload; InvalidArgument too for a chunk of another
// sender than the left neighbour, of a hop that there is not, or without bytes.
absl::Status CheckRingChunk(const Chunk& chunk, const View& view,
                            const std::vector<BucketSpec>& buckets);

// One bucket on its way round: what one rank sends, expects and computes. Offsets
// and sizes are in bytes on the wire. No threads and no gRPC streams in here.
//
//   float32   wire memory = the result: sums and means are made where they end up
//   halves    wire memory = the caller's: what is sent lies there, and means are
//             widened from it into the result
//   bytes     wire memory = the result; rank 0's go round once
class RingReduction {
 public:
  // `spec` is the bucket on the wire. `half_memory` has spec.bytes bytes for
  // halves, valid as long as this object, and is not used for other types.
  RingReduction(Transfer transfer, const BucketSpec& spec, int world_size, uint8_t* half_memory);

  const Transfer& transfer() const { return transfer_; }
  const BucketSpec& spec() const { return spec_; }
  SliceLender& lender() { return lender_; }

  bool is_broadcast() const { return spec_.dtype == v1::DTYPE_BYTES; }
  int hops() const;
  // What `sender` sends on `hop`; 0 bytes if nothing.
  RingSchedule::Segment SentBy(int sender, int hop) const;
  // The same over all hops.
  uint64_t BytesSentBy(int sender) const;
  // Whether what comes in on `hop` goes on to the right.
  bool ForwardsFrom(int hop) const;

  // InvalidArgument if a chunk of `bytes` bytes from `left`, which CheckRingChunk
  // found right, is not the next one of its hop.
  absl::Status CheckPlace(const ChunkHeader& header, uint64_t bytes, int left) const;
  // Adds or copies a checked chunk. True if a finite value became infinite.
  bool Take(const ChunkHeader& header, const Pieces& payload);
  // Gets this rank's own terms ready for hop 0. Returns as Take.
  bool PrepareTerms(uint64_t offset, uint64_t bytes);
  // The bytes to send on `hop`, of which PrepareTerms or Take made [offset, + bytes).
  const uint8_t* SentFrom(int hop) const;

  // For one rank alone: the mean is its own terms, rounded for the wire. As Take.
  bool AverageAlone();

 private:
  bool is_half() const { return spec_.dtype != v1::DTYPE_FLOAT32 && !is_broadcast(); }
  const float* TermsAt(uint64_t offset) const;
  absl::Span<float> ResultAt(uint64_t offset, uint64_t bytes);

  Transfer transfer_;
  const BucketSpec spec_;
  const RingSchedule schedule_;
  const int world_size_;
  uint8_t* const wire_;
  SliceLender lender_;
  std::vector<uint64_t> taken_;  // of each hop, how many bytes came in
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_RING_RING_REDUCTION_H_
