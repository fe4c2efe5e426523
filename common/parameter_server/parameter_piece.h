#ifndef GRADWIRE_COMMON_PARAMETER_SERVER_PARAMETER_PIECE_H_
#define GRADWIRE_COMMON_PARAMETER_SERVER_PARAMETER_PIECE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "common/fold/blocks.h"
#include "common/parameter_server/optimizer_module.h"
#include "common/sums/layout_sums.h"
#include "common/wire/chunk.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// How many steps ranks may be apart, and when they meet.
struct StalenessBound {
  absl::optional<uint64_t> staleness;  // S; none: unlimited
  uint64_t steps = 0;                  // of the run; all ranks meet after the last one
  uint64_t meet_every = 0;             // steps; 0: they meet only at the end
};

StalenessBound BoundOf(const v1::Serving& serving);

// The clocks of ranks that train one model without waiting for all: Ho et al., "More effective
// distributed ML via a stale synchronous parallel parameter server", NIPS 2013. A rank's clock is
// the number of steps whose gradients it has pushed. It may begin step c, counted from 0, when no
// rank's clock is below c - S:
//
//   S = 2   rank 0  ├─0─┼─1─┼─2─┼┄┄┄┄┄┄┄┄┄┄┄┄┼─3─┤     step 3 needs clocks of 1 or more
//           rank 1  ├────────0───────┼┄pushed┄┼────1 …
//
// So a rank computes at most S steps ahead of the slowest one, and clocks differ by at most S + 1.
// With S = 0 all ranks are in one step. The slowest rank never waits. At a step where ranks meet,
// and at the end of the run, all clocks must have arrived. Pure; not thread-safe.
class StaleClocks {
 public:
  StaleClocks(int ranks, const StalenessBound& bound) : bound_(bound), clocks_(ranks) {}

  // `rank` has pushed the gradients of one more step.
  void Advance(Rank rank) { ++clocks_[rank.value()]; }

  uint64_t clock(Rank rank) const { return clocks_[rank.value()]; }
  uint64_t slowest() const;
  uint64_t fastest() const;

  // Returns the value that all clocks must have reached before any rank begins `step`; the number
  // of steps of the run stands for its end.
  uint64_t Needed(uint64_t step) const;
  bool MayBegin(uint64_t step) const { return slowest() >= Needed(step); }

 private:
  const StalenessBound bound_;
  std::vector<uint64_t> clocks_;  // by rank
};

// The clients of a served model: ranks push, and a worker pulls once for all ranks that it carries.
struct ServerClients {
  int world_size = 1;
  std::vector<std::vector<Rank>> of_reader;  // the ranks of each worker
};

// One piece of a served model: its parameters, their optimizer, and the clocks of the ranks that
// push to it.
//
//   Begin ──► parameters ◄── optimizer ◄── gradients of Push: with S = 0 their fold, once all have
//                 │                        arrived; else each on arrival, at 1/W of its rate
//                 └──► Answer: for each worker in each step, once the clocks let it continue
//
// A piece of bytes (buffers) is the last one that its root pushed. Not thread-safe.
class ParameterPiece {
 public:
  // Its position in its layout.
  struct Position {
    Bucket bucket;
    BucketSpec spec;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    size_t number_in_shard = 0;     // see Grid
    std::vector<FoldRange> ranges;  // of the fold; empty for bytes
  };
  // The result for one worker after one step.
  struct Answer {
    size_t reader = 0;
    Step step;  // 0: the start of training
    ChunkClocks clocks;
    std::shared_ptr<const MeanChunk> model;
  };

  // `ranks` must outlive it.
  ParameterPiece(Position position, const ServerClients* ranks, const StalenessBound& bound);

  // Returns whether Begin was called.
  bool begun() const { return data_ != nullptr; }
  // Returns the next step that `rank` may push: the one after its clock.
  Step NextOf(Rank rank) const;
  // Returns whether it has waited for the model from which its next push must come.
  bool MayPush(Rank rank) const { return clocks_.MayBegin(clocks_.clock(rank)); }

  // The values at the start of training, with the piece's size. `make` is not used for bytes.
  std::vector<Answer> Begin(const ByteSpans& payload, const MakePieceOptimizer& make);
  // The gradients of one step, NextOf their rank, for which MayPush must be true.
  std::vector<Answer> Push(Chunk chunk);

  // Returns the ranks that prevent others from beginning `step`.
  std::vector<Rank> MissingFor(Step step) const;

 private:
  void Take(Chunk chunk);
  void HoldForFold(Chunk chunk);
  std::vector<Answer> TakeDue();
  std::shared_ptr<const MeanChunk> Snapshot();

  const Position position_;
  const ServerClients& ranks_;
  const bool folds_;
  StaleClocks clocks_;
  std::unique_ptr<uint8_t[]> data_;  // null before Begin
  std::unique_ptr<PieceOptimizer> optimizer_;
  std::vector<Chunk> terms_;                   // of the open step, if they are folded
  std::vector<absl::optional<Step>> wanted_;   // by reader: the step whose answer it waits for
  std::shared_ptr<const MeanChunk> snapshot_;  // null after the piece has changed
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_PARAMETER_SERVER_PARAMETER_PIECE_H_
