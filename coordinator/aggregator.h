#ifndef GRADWIRE_COORDINATOR_AGGREGATOR_H_
#define GRADWIRE_COORDINATOR_AGGREGATOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/chunk.h"
#include "common/ids.h"
#include "common/judge.h"
#include "common/layout.h"
#include "common/mutex.h"
#include "common/view.h"

namespace gradwire {

// A finished piece of a bucket: the mean of all ranks' terms, or rank 0's bytes.
struct MeanChunk {
  Bucket bucket;
  uint64_t offset = 0;
  uint64_t checksum = 0;
  std::vector<float> values;  // holds `bytes` bytes, rounded up to whole floats
  uint64_t bytes = 0;

  const uint8_t* data() const { return reinterpret_cast<const uint8_t*>(values.data()); }
};

// When each rank's last term of a step came in.
using Arrivals = std::vector<absl::Time>;

// Sums the terms of all ranks, chunk by chunk, as the fold says.
//
//   Add(rank 0) ──┐   slot of (bucket, offset): W terms, any order of arrival
//   Add(rank 1) ──┼─► full? ──► Fold ──► results of the step, in order of completion
//   Add(rank 2) ──┘                        ▲
//   Next(step, 0 … n-1) ───────────────────┘  one reader per rank, blocking
//
// A step opens when all results of the one before are there, and the results
// of one finished step are kept, so that a reader can come back. Held memory is
// at most W gradients of terms and 2 of results; Add refuses what would pass
// (W + 2) gradients with ResourceExhausted.
//
// Thread-safe. Folds run on the thread whose Add filled the slot, with no lock held.
class Aggregator {
 public:
  Aggregator() = default;

  // Starts at step 0 of `view`. Call once, before Add and Next matter: calls
  // that come earlier get FailedPrecondition.
  void Configure(const View& view, std::vector<BucketSpec> buckets);

  // Calls `observer` after each step, on the thread that finished it.
  void set_observer(std::function<void(Step, const Arrivals&)> observer);

  // Takes one term. kAccept: held or summed; other verdicts: dropped, fine.
  // Errors: those of JudgeHeader and CheckPayload; InvalidArgument if the chunk
  // is off the grid of View.chunk_bytes; ResourceExhausted; Aborted after Abort.
  absl::StatusOr<Verdict> Add(Chunk chunk);

  // Whether a reader with this view may call Next: PermissionDenied if it is of
  // another run, Aborted if it is of another epoch or generation, else OK or the
  // error of Abort or FailedPrecondition.
  absl::Status CheckReader(const RunId& run_id, CoordinatorEpoch epoch,
                           Generation generation) const;

  // Result number `index` of `step`, waiting for it; null behind the last one.
  //   DeadlineExceeded  names the ranks whose terms are missing
  //   OutOfRange        the step's results are gone, or far in the future
  //   Aborted           see Abort
  absl::StatusOr<std::shared_ptr<const MeanChunk>> Next(Step step, size_t index,
                                                        absl::Time deadline);

  // Ends all waits, and all further calls, with `reason`, which is not OK.
  void Abort(absl::Status reason);

  // The part of a header that is the same for all chunks of this run and step.
  ChunkHeader HeaderFor(Step step, const MeanChunk& mean) const;

  // Payload bytes held at present, terms and results.
  uint64_t held_bytes() const;

 private:
  // One chunk of the grid, while its terms come in.
  struct Slot {
    std::vector<Chunk> terms;         // by rank; empty once folded
    std::vector<uint64_t> checksums;  // by rank
    std::vector<bool> has_term;       // by rank
    int missing = 0;                  // terms that are still to come
  };
  struct StepState {
    Step step;
    std::vector<std::vector<Slot>> slots;  // by bucket, by offset / chunk_bytes
    std::vector<std::shared_ptr<const MeanChunk>> results;
    Arrivals arrivals;
  };

  StepState NewStep(Step step) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Slot*> FindSlot(const Chunk& chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Verdict> Judge(const Chunk& chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Hold(Chunk chunk, Slot* slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds a result; true if it was the last one of its step.
  bool Publish(std::shared_ptr<const MeanChunk> mean) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string MissingRanks() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t GridBytes(const BucketSpec& bucket, uint64_t offset) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  absl::Status state_ ABSL_GUARDED_BY(mutex_) =
      absl::FailedPreconditionError("the run has not begun: workers are missing");
  View view_ ABSL_GUARDED_BY(mutex_);
  std::vector<BucketSpec> buckets_ ABSL_GUARDED_BY(mutex_);
  size_t chunks_per_step_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t limit_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  StepState open_ ABSL_GUARDED_BY(mutex_);
  StepState finished_ ABSL_GUARDED_BY(mutex_);  // the step before; valid if open_.step > 0
  std::function<void(Step, const Arrivals&)> observer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_AGGREGATOR_H_
