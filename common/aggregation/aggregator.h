#ifndef GRADWIRE_COMMON_AGGREGATION_AGGREGATOR_H_
#define GRADWIRE_COMMON_AGGREGATION_AGGREGATOR_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/aggregation/grid.h"
#include "common/wire/chunk.h"
#include "common/base/ids.h"
#include "common/wire/judge.h"
#include "common/wire/layout.h"
#include "common/base/mutex.h"
#include "common/telemetry/trace_span.h"
#include "common/wire/view.h"

namespace gradwire {

// A finished piece of a bucket: the mean of all ranks' terms, or rank 0's bytes.
struct MeanChunk {
  Bucket bucket;
  size_t number_in_share = 0;  // see Grid
  uint64_t offset = 0;
  uint64_t checksum = 0;
  uint64_t bytes = 0;
  std::unique_ptr<uint8_t[]> data;
};

// Which pieces an aggregator sums: those that the grid gives to `index`.
struct Share {
  int owners = 1;
  int index = 0;
};

// When each rank's last term of a step came in.
using Arrivals = std::vector<absl::Time>;

// Sums the terms of all ranks, piece by piece, as the fold says. The coordinator
// has one that sums everything; with back end `sharded` every worker, or every
// separate aggregator, has one for its share.
//
//   Add(rank 0) ──┐   slot of (bucket, piece): W terms, any order of arrival
//   Add(rank 1) ──┼─► full? ──► Fold ──► results of the step, in order of completion
//   Add(rank 2) ──┘                        ▲
//   Next(step, 0 … n-1) ───────────────────┘  one reader per rank, blocking
//
// A step opens when all results of the one before are there. The results of one
// finished step are kept, because a rank may have handed in its terms of the open
// step and not yet read those results. To a share of rank 0's bytes alone the other
// ranks send nothing that would hold it back; it can be one step further ahead of its
// readers, and keeps two. Held memory is at most W shares of terms and 2 of results;
// Add refuses what would pass (W + 2) shares with ResourceExhausted.
//
// Thread-safe. Folds run on the thread whose Add filled the slot, with no lock held.
class Aggregator {
 public:
  Aggregator() = default;

  // Starts at step 0 of `view`. Call once: calls of Add and Next that come
  // earlier get FailedPrecondition. `buckets` are in the type of the wire; at least
  // one is no bucket of bytes.
  void Configure(const View& view, std::vector<BucketSpec> buckets, const Share& share);

  // Waits for Configure or Abort until `deadline`; then as CheckReader would say.
  absl::Status WaitUntilConfigured(absl::Time deadline);

  // Calls `observer` after each step, on the thread that finished it.
  void set_observer(std::function<void(Step, const Arrivals&)> observer);

  // Calls `on_fold` after each sum, on the thread that made it. Before Configure.
  void set_on_fold(OnSpan on_fold) { on_fold_ = std::move(on_fold); }

  // Takes one term. kAccept: held or summed; other verdicts: dropped, fine.
  // Errors: those of JudgeHeader and CheckPayload; InvalidArgument if the chunk
  // is no piece of the grid, or another aggregator's; ResourceExhausted; Aborted
  // after Abort.
  absl::StatusOr<Verdict> Add(Chunk chunk);

  // The same for a chunk of this process: its checksum is not looked at.
  absl::StatusOr<Verdict> AddOwn(Chunk chunk);

  // Whether a reader with this view may call Next: PermissionDenied if it is of
  // another run, Aborted if it is of another epoch or generation, else OK or the
  // error of Abort or FailedPrecondition.
  absl::Status CheckReader(const RunId& run_id, CoordinatorEpoch epoch,
                           Generation generation) const;

  // Result number `index` of `step`, waiting for it; null behind the last one.
  // `continues`: the reader has had all results before this one, and its rank sends
  // terms only of steps that it has all results of. A step that is gone was over for
  // such a reader, which is late to see it, and is null for it too.
  //   DeadlineExceeded  names the ranks whose terms are missing
  //   OutOfRange        the step's results are gone, or far in the future
  //   Aborted           see Abort
  absl::StatusOr<std::shared_ptr<const MeanChunk>> Next(Step step, size_t index,
                                                        absl::Time deadline,
                                                        bool continues = false);

  // The ranks that hold up `step`: pieces lack their terms, but have others'. If
  // no piece has any term, all ranks whose terms lack. Empty if the step is over
  // or far away.
  std::vector<Rank> MissingRanks(Step step) const;

  // Ends all waits, and all further calls, with `reason`, which is not OK.
  void Abort(absl::Status reason);

  // The part of a header that is the same for all chunks of this run and step.
  ChunkHeader HeaderFor(Step step, const MeanChunk& mean) const;

  // Payload bytes held at present, terms and results.
  uint64_t held_bytes() const;

 private:
  // One piece of the grid, while its terms come in.
  struct Slot {
    std::vector<Chunk> terms;         // by rank; empty once folded
    std::vector<uint64_t> checksums;  // by rank
    std::vector<bool> has_term;       // by rank
    int missing = 0;                  // terms that are still to come
  };
  struct StepState {
    Step step;
    std::vector<std::vector<Slot>> slots;  // by bucket, by piece; others' stay empty
    std::vector<std::shared_ptr<const MeanChunk>> results;
    Arrivals arrivals;
  };

  // The open step or a finished one that is kept; null for others.
  const StepState* Find(Step step) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  StepState NewStep(Step step) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<size_t> FindPiece(const Chunk& chunk) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The verdict, and with kAccept the chunk's piece.
  absl::StatusOr<Verdict> Judge(const Chunk& chunk, size_t* piece)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Hold(Chunk chunk, Slot* slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds a result; true if it was the last one of its step.
  bool Publish(std::shared_ptr<const MeanChunk> mean) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Publishes, and tells the observer if that was the step's last result.
  void Finish(std::shared_ptr<const MeanChunk> mean);
  std::set<int> Missing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  OnSpan on_fold_;  // may be empty
  mutable Mutex mutex_;
  CondVar changed_;
  absl::Status state_ ABSL_GUARDED_BY(mutex_) =
      absl::FailedPreconditionError("the run has not begun: workers are missing");
  View view_ ABSL_GUARDED_BY(mutex_);
  std::vector<BucketSpec> buckets_ ABSL_GUARDED_BY(mutex_);
  Share share_ ABSL_GUARDED_BY(mutex_);
  std::vector<Grid> grids_ ABSL_GUARDED_BY(mutex_);     // by bucket
  size_t pieces_per_step_ ABSL_GUARDED_BY(mutex_) = 0;  // of this share
  uint64_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t limit_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  StepState open_ ABSL_GUARDED_BY(mutex_);
  std::deque<StepState> finished_ ABSL_GUARDED_BY(mutex_);  // those kept, oldest first
  size_t kept_steps_ ABSL_GUARDED_BY(mutex_) = 1;
  std::function<void(Step, const Arrivals&)> observer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_AGGREGATION_AGGREGATOR_H_
