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

// The state of one bucket at one rank: its sends, receives and sums. Offsets and sizes are in bytes
// on the wire. No threads and no gRPC streams in here.
//
//   float32   wire memory = the result: sums and means are computed in place
//   halves    wire memory = the caller's: it holds the data to send, and means are
//             widened from it into the result
//   bytes     wire memory = the result
class HopPosition {
 public:
  // `result`: where this rank computes the bucket's result. `half_memory`: memory of the bucket's
  // bytes for halves, unused for other types. The caller owns both, and may share them between the
  // ranks of a worker if the topology allows it. All arguments must outlive this object.
  HopPosition(const Transfer* transfer, const BucketPlan* plan, Rank rank, int world_size,
              absl::Span<uint8_t> result, uint8_t* half_memory);

  Rank rank() const { return rank_; }
  const RankPlan& plan() const { return plan_; }
  const std::vector<HopChunk>& HopChunksOf(const Hop& hop) const {
    return segments_.Of(hop.segment);
  }

  // Sets the rank's terms, once. Parts that no other rank sends go to the result; returns true if a
  // finite value became infinite by that. The caller then sets `has_terms`, under its lock.
  bool SetTerms(absl::Span<const uint8_t> terms);
  // Whether the terms are set, if the rank contributes any.
  bool is_ready() const { return has_terms || !contributes_; }
  // Whether the chunk at `offset` can be taken from `receive`: the earlier receive has taken it.
  bool CanTake(int receive, uint64_t offset) const;

  // Returns the index of a chunk within `receive`, after HopPlans::Judge. InvalidArgument if it is
  // not the next one.
  absl::StatusOr<size_t> NextOf(int receive, const ChunkHeader& header) const;
  // Adds or copies the chunk of NextOf. Returns true if a finite value became infinite.
  bool Take(const RankPlan::Receive& receive, const HopChunk& hop_chunk, const ByteSpans& payload);
  // Prepares the rank's own terms for a send. Returns as Take does.
  bool PrepareTerms(const HopChunk& hop_chunk);
  // Returns the data to send, after PrepareTerms or Take.
  ByteSpans Sent(const RankPlan::Send& send, const HopChunk& hop_chunk) const;

  bool has_terms = false;
  // For each of the plan's receives: bytes that have not arrived, and chunks taken. For all: bytes
  // not taken, and not sent. The exchange keeps these counts, under its lock.
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
