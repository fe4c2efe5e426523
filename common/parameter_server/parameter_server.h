#ifndef GRADWIRE_COMMON_PARAMETER_SERVER_PARAMETER_SERVER_H_
#define GRADWIRE_COMMON_PARAMETER_SERVER_PARAMETER_SERVER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/mutex.h"
#include "common/parameter_server/optimizer_module.h"
#include "common/parameter_server/parameter_piece.h"
#include "common/sums/layout_sums.h"
#include "common/wire/judge.h"
#include "common/wire/view.h"

namespace gradwire {

// One aggregator's share of a served model (see v1.Serving): workers receive the model instead of
// means, each at its own time.
//
//   Add ──► piece (its own lock): optimizer, clocks ──► answers, a queue for each worker ──► Next
//
// It holds the share, the optimizer's state, with S = 0 the terms of the open step, and the answers
// that were not fetched: at most the share once per worker. Thread-safe.
class ParameterServer {
 public:
  using LoadOptimizers = std::function<absl::StatusOr<MakePieceOptimizer>(const v1::Serving&)>;

  // `buckets` are of float32 or bytes. `load` is called with the first chunk.
  ParameterServer(LayoutId layout, const View& view, std::vector<BucketSpec> buckets,
                  const Shard& share, const v1::Serving& serving,
                  LoadOptimizers load = &LoadPieceOptimizers);

  // Takes a chunk of this layout whose run and generation were checked. Errors: those of
  // JudgeHeader, with the rank's next step as the open one; those of `load`; InvalidArgument if the
  // chunk is not a piece of the grid, is another aggregator's, has a partial float32, or starts
  // training and is not from rank 0; OutOfRange if its rank has not waited for the model.
  // `answered` must be false before the call; becomes true if new answers exist.
  absl::StatusOr<Verdict> Add(Chunk chunk, bool* answered);

  // Removes and returns the next answer of a worker; none if there is none. A worker outside the
  // view gets none.
  struct Answer {
    ChunkHeader header;
    std::shared_ptr<const MeanChunk> chunk;
  };
  absl::optional<Answer> Next(Incarnation reader);

  // Returns the ranks for which a worker waits that has sent its terms of `step`.
  std::set<int> Missing(Step step) const;

  // Returns the bytes of the share, without the optimizer's state.
  uint64_t held_bytes() const { return held_bytes_; }

 private:
  struct LockedPiece {
    explicit LockedPiece(ParameterPiece piece) : piece(std::move(piece)) {}
    mutable Mutex mutex;
    ParameterPiece piece ABSL_GUARDED_BY(mutex);
  };

  void MakePieces(const StalenessBound& bound);
  absl::StatusOr<Verdict> Judge(const Chunk& chunk, const ParameterPiece& piece) const;
  const absl::StatusOr<MakePieceOptimizer>& Optimizers();
  void Queue(std::vector<ParameterPiece::Answer> answers);

  const LayoutId layout_;
  const View view_;
  const std::vector<BucketSpec> buckets_;
  const Shard shard_;
  const v1::Serving serving_;
  const LoadOptimizers load_;
  const FoldBlocks blocks_;
  ServerClients ranks_;      // constant after construction, as
  std::vector<Grid> grids_;  // by bucket
  std::vector<std::vector<std::unique_ptr<LockedPiece>>>
      slots_;  // by bucket, piece; null for other aggregators' pieces
  uint64_t held_bytes_ = 0;

  std::once_flag loaded_;
  absl::StatusOr<MakePieceOptimizer> optimizers_;  // set once loaded

  Mutex mutex_;
  std::vector<std::deque<Answer>> answers_ ABSL_GUARDED_BY(mutex_);  // by reader
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_PARAMETER_SERVER_PARAMETER_SERVER_H_
