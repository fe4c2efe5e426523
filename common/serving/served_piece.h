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
#include "common/serving/optimizer_module.h"
#include "common/serving/stale_clocks.h"
#include "common/sums/layout_sums.h"
#include "common/wire/chunk.h"

namespace gradwire {

// Who pushes to a served model and who pulls it: a worker pulls once for all ranks that it carries.
struct ServedRanks {
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
class ServedPiece {
 public:
  // Where it stands in its layout.
  struct Place {
    Bucket bucket;
    BucketSpec spec;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    size_t number_in_share = 0;     // see Grid
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
  ServedPiece(Place place, const ServedRanks* ranks, const StalenessBound& bound);

  // Whether Begin was called.
  bool begun() const { return data_ != nullptr; }
  // The step that `rank` may push next: one behind its clock.
  Step NextOf(Rank rank) const;
  // Whether it has waited for the model that its next push is to come from.
  bool MayPush(Rank rank) const { return clocks_.MayBegin(clocks_.clock(rank)); }

  // What training begins with, as many bytes as the piece has. `make` is not used for bytes.
  std::vector<Answer> Begin(const Pieces& payload, const MakePieceOptimizer& make);
  // The gradients of a step, NextOf their rank, which MayPush.
  std::vector<Answer> Push(Chunk chunk);

  // The ranks without which nobody can begin `step`.
  std::vector<Rank> MissingFor(Step step) const;

 private:
  void Take(Chunk chunk);
  void HoldForFold(Chunk chunk);
  std::vector<Answer> TakeDue();
  std::shared_ptr<const MeanChunk> Snapshot();

  const Place place_;
  const ServedRanks& ranks_;
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
