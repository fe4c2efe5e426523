#ifndef GRADWIRE_WORKER_RUN_TRAINER_H_
#define GRADWIRE_WORKER_RUN_TRAINER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/telemetry/step_record.h"
#include "common/telemetry/trace_log.h"
#include "common/wire/layout.h"
#include "worker/data/batches.h"
#include "worker/ddp/reducer.h"
#include "worker/learning/learning_rate.h"
#include "worker/learning/losses.h"
#include "worker/models/model.h"
#include "worker/run/gates.h"
#include "worker/run/pending_step.h"
#include "worker/sync/synchronizer.h"

namespace gradwire {

// The trainer's link to a run that goes on after a loss. If both are empty, an applied step is
// final.
struct StepSeal {
  // Called when all means of the step have arrived and are applied. `digests`: of the trained
  // parameters in steps that compare them, else empty. Must not block.
  std::function<void(Step, absl::Span<const TensorDigest> digests)> ready;
  std::function<absl::Status(Step)> await;  // blocks until the step is final
};

struct TrainerOptions {
  Loss loss = &CrossEntropy;
  LearningRate learning_rate = [](Step) { return 0.1; };
  ReducerOptions reducer = {};
  UpdateOptions update = {};
  bool changes_mean = false;  // the sync writes to means; else they may lie in shared memory
  absl::Duration step_timeout = absl::Seconds(300);
  int64_t micro_batch = 0;    // most samples that are computed at once; 0: the whole batch
  uint64_t seed = 744;        // for random numbers in forward passes, such as dropout
  bool updates_late = false;  // parameters are updated within the next forward pass
  // Whether all updates of a step are done before the next step begins, although updates are late.
  // Empty: they may be late after every step.
  std::function<bool(Step)> is_border = nullptr;
  StepSeal seal = {};
  // Called before a step's batches are asked for, with that step, and so also at the end of Run.
  // Its time is in no phase.
  std::function<void(Step)> before_step = nullptr;
  // Called when the trainer begins a phase of a step. `waits`: it waits for other workers, for the
  // given bucket if that is known. Must not block.
  std::function<void(const char* phase, Step, bool waits, absl::optional<Bucket>)> on_phase =
      nullptr;
  OnSpan on_span = nullptr;  // gets data, forward, backward, wait, optimizer and exchange
};

// Trains one worker's ranks, one after the other:
//
//   batch ─► forward ─► backward ─┐
//   batch ─► forward ─► backward ─┴─► sync (mean of all ranks) ─► optimizer
//
// A rank's pass depends only on parameters, its batch, its buffers (see RankBuffers) and
// ForwardSeed, so any worker can carry the rank.
//
// A batch of more than micro_batch samples goes through forward and backward in pieces. Their
// gradients add up, and the sum is exchanged.
//
// With late updates, the optimizer runs within the first rank's forward pass of the next step, a
// bucket at a time, with the same bits:
//
//   forward   ┌ gate ┐ stage 0 ┌ gate ┐ stage 1 …    gate: takes means and updates
//             └──────┘         └──────┘              parameters, until all that the
//                                                    stage reads are up to date
//
// If steps are sealed, a step can be undone until it is sealed (see PendingStep): the optimizer
// saves each bucket before it updates it, and takes no bucket of the next step before the seal. The
// next step's computation hides that wait. After an error, Rewind restores parameters, optimizers
// and buffers to their state before a step, and Run may be called again with the batches from that
// step on.
//
// If ranks have their own models (see Updater), each also has its own optimizer, which runs after
// its backward pass with its own gradient:
//
//   for each rank   batch ─► forward ─► backward ─► optimizer      then   sync
//
// A skipped step does not change parameters and optimizers. Buffers keep the changes of its forward
// passes, and the schedule of the learning rate goes on.
//
// If the model is served, the optimizer runs at the aggregators, and parameters arrive instead of
// means.
//
// Not thread-safe: everything runs on the caller's thread.
class Trainer {
 public:
  using NextBatch = std::function<absl::StatusOr<Batch>()>;
  // Gets a record for each carried rank, in order, without bytes and time.
  using OnStep = std::function<void(absl::Span<const StepRecord>)>;

  // `model` must be in training mode. Errors: those of Reducer::Create and FindOptimizer.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(std::shared_ptr<Model> model,
                                                         const TrainerOptions& options);

  // Attach it to an exchange before Run (see Synchronizer), unless nothing is averaged.
  Reducer& reducer() { return *reducer_; }

  // Trains until `next` returns OutOfRange for a step's first batch (all steps are done: returns
  // OK), `stopped` returns true between two phases (Cancelled), or an error occurs:
  //   an error of `next`, or of the sync (see Synchronizer::NextBucket)
  //   Internal    torch threw
  //   OutOfRange  with kOfAll, from Nonfinite::kStop: names the step, the parameter and perhaps
  //               a rank
  // `next` gives each step's batches, one for each carried rank, in order. `sync` is null if
  // nothing is averaged, but not if ranks have their own models. `on_step` is called for each step
  // after its last update, in order. On return no transfer is under way, except those that the sync
  // delays; unless OK, the last step was abandoned.
  absl::Status Run(const NextBatch& next, Synchronizer* sync, const OnStep& on_step,
                   const std::function<bool()>& stopped);

  // Before the first Run: makes `first` the first step.
  void BeginAt(Step first);

  // After an error of Run, if steps are sealed: makes `first` the next step; all before it are
  // sealed. Call Reducer::Attach next.
  void Rewind(Step first);

  // Between two steps whose updates are not late: returns the optimizers of carried rank `index`;
  // see PendingStep::Optimizers.
  absl::Span<SlicedOptimizer> Optimizers(size_t index) { return pending_->Optimizers(index); }

  // Returns the first step that is not complete, or the last one.
  Step current_step() const { return current_step_; }
  // Returns the time of SteadyNow at which the computation of `step`, not yet sealed, began;
  // nothing if it has not begun.
  absl::optional<absl::Time> BegunAt(Step step) const;

 private:
  // The arguments of Run.
  struct Calls {
    const NextBatch& next;
    Synchronizer* const sync;
    const OnStep& on_step;
    const std::function<bool()>& stopped;
    Stopwatch iteration;
  };

  Trainer(std::shared_ptr<Model> model, const TrainerOptions& options,
          std::unique_ptr<Reducer> reducer, std::unique_ptr<PendingStep> pending);

  absl::Status RunSteps(Calls& calls);
  absl::Status RunStep(absl::StatusOr<Batch> batch, Stopwatch wait, Calls& calls);
  absl::Status RunRank(const Batch& batch, Rank rank, Calls& calls);
  absl::Status Compute(const Batch& batch, Rank rank, Calls& calls, StepRecord* report);
  absl::StatusOr<torch::Tensor> Forward(torch::Tensor images, Calls& calls);
  absl::StatusOr<torch::Tensor> LossOf(const Batch& batch, int64_t first, int64_t count,
                                       Calls& calls, StepRecord* report);
  absl::Status LastBackward(const torch::Tensor& loss, Rank rank, Calls& calls);
  absl::Status PassGate(const std::vector<size_t>& buckets, Calls& calls);
  absl::StatusOr<size_t> AwaitBucket(size_t wanted, Calls& calls);
  absl::Status AwaitSeal();
  bool IsLate(Step step) const;
  void Update(size_t bucket);
  absl::Status EndStep(Calls& calls);
  absl::Status EndOwnStep(Calls& calls);
  // Adds the time since the last lap of `watch` to a phase of `step`.
  void Lap(Stopwatch* watch, const char* name, Step step, absl::Duration* phase) const;
  void Begin(const char* phase, Step step) const;
  void BeginWait(Step step, absl::optional<Bucket> bucket = absl::nullopt) const;
  void Report(Calls& calls);
  void Reset();

  const std::shared_ptr<Model> model_;
  const TrainerOptions options_;
  const std::unique_ptr<Reducer> reducer_;
  const std::vector<GatedStage> stages_;
  const std::unique_ptr<PendingStep> pending_;
  std::vector<size_t> all_buckets_;

  Step current_step_;
  // Reports of ranks whose pass of this step is done, and the sum of their times.
  Step computing_;
  Step next_step_;  // the step after it
  std::vector<StepRecord> reports_;
  PhaseTimes times_;
  // When the last steps began, by the remainder of the step. With late updates three are open: one
  // waits for its seal, one is updated, and one is computed.
  std::array<absl::optional<std::pair<Step, absl::Time>>, 3> begun_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_TRAINER_H_
