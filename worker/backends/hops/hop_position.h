#ifndef GRADWIRE_WORKER_BACKENDS_HOPS_HOP_POSITION_H_
#define GRADWIRE_WORKER_BACKENDS_HOPS_HOP_POSITION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/wire/chunk.h"
#include "worker/backends/exchange.h"
#include "worker/backends/hops/hop_plans.h"

namespace gradwire {

// One bucket on its way past one rank: what the rank sends, expects and computes. Offsets
// and sizes are in bytes on the wire. No threads and no gRPC streams in here.
//
//   float32   wire memory = the result: sums and means are made where they end up
//   halves    wire memory = the caller's: what is sent lies there, and means are
//             widened from it into the result
//   bytes     wire memory = the result
class HopPosition {
 public:
  // `result` is where this rank makes the bucket's result, and `half_memory` has the bucket's
  // bytes for halves and is not used for other types; both are the caller's, who may share them
  // between the ranks of a worker if the topology allows it. All outlive this object.
  HopPosition(const Transfer* transfer, const BucketPlan* plan, Rank rank, int world_size,
              absl::Span<uint8_t> result, uint8_t* half_memory);

  Rank rank() const { return rank_; }
  const RankPlan& plan() const { return plan_; }
  const std::vector<HopChunk>& HopChunksOf(const Hop& hop) const {
    return segments_.Of(hop.segment);
  }

  // The rank's terms, once. What is received of no other rank goes to the result; true if a
  // finite value became infinite by that. The caller sets `has_terms` then, under its lock.
  bool SetTerms(absl::Span<const uint8_t> terms);
  // Whether the terms are there, if there are to be any.
  bool is_ready() const { return has_terms || !contributes_; }
  // Whether the chunk that begins at `offset` can be taken from `receive`: it has been from the
  // one before.
  bool CanTake(int receive, uint64_t offset) const;

  // Which chunk of `receive` a chunk is, which HopPlans::Judge found right. InvalidArgument if it
  // is not the next one.
  absl::StatusOr<size_t> NextOf(int receive, const ChunkHeader& header) const;
  // Adds or copies what NextOf gave. True if a finite value became infinite.
  bool Take(const RankPlan::Receive& receive, const HopChunk& hop_chunk, const ByteSpans& payload);
  // Gets the rank's own terms ready for a send of them. Returns as Take.
  bool PrepareTerms(const HopChunk& hop_chunk);
  // What to send, which PrepareTerms or Take made.
  ByteSpans Sent(const RankPlan::Send& send, const HopChunk& hop_chunk) const;

  bool has_terms = false;
  // Of each of the plan's receives, bytes that have not come, and chunks that have been taken; of
  // all, bytes that have not been taken, and not been sent. All kept by the exchange, under its
  // lock.
  std::vector<uint64_t> to_receive;
  std::vector<size_t> taken;
  uint64_t to_take = 0;
  uint64_t to_send = 0;

 private:
  bool is_half() const { return ElementBytes(spec_.dtype) == 2; }
  const float* TermsAt(uint64_t offset) const;
  absl::Span<float> ResultAt(uint64_t offset, uint64_t bytes);
  bool KeepOwn(const HopChunk& hop_chunk);
  bool TakeRange(const RankPlan::Receive& receive, const FoldRange& range,
                 const ByteSpans& payload);

  const BucketSpec spec_;
  const RankPlan& plan_;
  const Rank rank_;
  const int world_size_;
  const bool contributes_;
  const Segments& segments_;
  const absl::Span<uint8_t> result_;
  uint8_t* const wire_;
  absl::Span<const uint8_t> terms_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_HOPS_HOP_POSITION_H_
