#ifndef GRADWIRE_COMMON_SERVING_SERVED_PIECE_H_
#define GRADWIRE_COMMON_SERVING_SERVED_PIECE_H_

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

// How far ranks may be apart, and when they meet.
struct StalenessBound {
  absl::optional<uint64_t> staleness;  // S; none: any number of steps
  uint64_t steps = 0;                  // of the run, after which all meet
  uint64_t meet_every = 0;             // steps; 0: they meet at the end alone
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
// So at any time a rank computes at most S steps ahead of the slowest one, and clocks are at most
// S + 1 apart; with S = 0 all are in one step. The slowest rank never waits. A step at which ranks
// meet, and the end of the run, need all clocks to be there. Pure; not thread-safe.
class StaleClocks {
 public:
  StaleClocks(int ranks, const StalenessBound& bound) : bound_(bound), clocks_(ranks) {}

  // `rank` has pushed the gradients of one more step.
  void Advance(Rank rank) { ++clocks_[rank.value()]; }

  uint64_t clock(Rank rank) const { return clocks_[rank.value()]; }
  uint64_t slowest() const;
  uint64_t fastest() const;

  // What all clocks must have reached before any rank begins `step`; the number of steps of the run
  // stands for its end.
  uint64_t Needed(uint64_t step) const;
  bool MayBegin(uint64_t step) const { return slowest() >= Needed(step); }

 private:
  const StalenessBound bound_;
  std::vector<uint64_t> clocks_;  // by rank
};

// Who pushes to a served model and who pulls it: a worker pulls once for all ranks that it carries.
struct ServerClients {
  int world_size = 1;
  std::vector<std::vector<Rank>> of_reader;  // those that each worker carries
};

// One piece of a model that is served: its parameters, their optimiser, and the clocks of the ranks
// that push to it.
//
//   Begin ──► parameters ◄── optimiser ◄── gradients of Push: with S = 0 their fold, once all are
//                 │                        there; else each as it comes, at 1/W of its rate
//                 └──► Answer: for each worker in each step, once the clocks let it go on
//
// A piece of bytes (buffers) is what its root pushed last. Not thread-safe.
class ParameterPiece {
 public:
  // Where it stands in its layout.
  struct Position {
    Bucket bucket;
    BucketSpec spec;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    size_t number_in_shard = 0;     // see Grid
    std::vector<FoldRange> ranges;  // of the fold; none of bytes
  };
  // What one worker gets after one step.
  struct Answer {
    size_t reader = 0;
    Step step;  // 0: as training begins
    ChunkClocks clocks;
    std::shared_ptr<const MeanChunk> model;
  };

  // `ranks` outlives it.
  ParameterPiece(Position position, const ServerClients* ranks, const StalenessBound& bound);

  // Whether Begin was called.
  bool begun() const { return data_ != nullptr; }
  // The step that `rank` may push next: one behind its clock.
  Step NextOf(Rank rank) const;
  // Whether it has waited for the model that its next push is to come from.
  bool MayPush(Rank rank) const { return clocks_.MayBegin(clocks_.clock(rank)); }

  // What training begins with, as many bytes as the piece has. `make` is not used for bytes.
  std::vector<Answer> Begin(const ByteSpans& payload, const MakePieceOptimizer& make);
  // The gradients of a step, NextOf their rank, which MayPush.
  std::vector<Answer> Push(Chunk chunk);

  // The ranks without which nobody can begin `step`.
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
  std::vector<absl::optional<Step>> wanted_;   // by reader: the step that it waits behind
  std::shared_ptr<const MeanChunk> snapshot_;  // null once the piece has changed
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_SERVING_SERVED_PIECE_H_
