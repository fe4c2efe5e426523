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

// What a trainer says and asks of steps in a run that goes on when a worker is lost. Both empty: a
// step that is applied stays so.
struct StepSeal {
  // All of its means are here, and applied; `digests` of the trained parameters in steps in which
  // they are compared, else empty. Must not block.
  std::function<void(Step, absl::Span<const TensorDigest> digests)> ready;
  std::function<absl::Status(Step)> await;  // until it will never be computed anew
};

struct TrainerOptions {
  Loss loss = &CrossEntropy;
  LearningRate learning_rate = [](Step) { return 0.1; };
  ReducerOptions reducer = {};
  UpdateOptions update = {};
  absl::Duration step_timeout = absl::Seconds(300);
  int64_t micro_batch = 0;    // most samples that are computed at once; 0: the whole batch
  uint64_t seed = 744;        // of what forward passes draw, such as dropout
  bool updates_late = false;  // parameters are updated within the next forward pass
  StepSeal seal = {};
  // Hears what the trainer begins with: a phase of a step, and whether it waits in it for others,
  // in which bucket if that is known. Must not block.
  std::function<void(const char* phase, Step, bool waits, absl::optional<Bucket>)> on_phase =
      nullptr;
  OnSpan on_span = nullptr;  // hears of data, forward, backward, wait, optimizer and exchange
};

// One worker's part in training: for each rank that it carries, one after the other,
//
//   batch ─► forward ─► backward ─┐
//   batch ─► forward ─► backward ─┴─► sync (mean of all ranks) ─► optimiser
//
// Every rank's pass is a function of parameters, its batch, its buffers (see RankBuffers)
// and ForwardSeed alone; so it does not matter which worker carries it.
//
// A batch of more than micro_batch samples goes through forward and backward in
// pieces whose gradients add up; what is exchanged is their sum.
//
// If updates are late, the optimiser runs within the first rank's forward pass of
// the step behind, a bucket at a time, with the same bits:
//
//   forward   ┌ gate ┐ stage 0 ┌ gate ┐ stage 1 …    gate: takes means and updates
//             └──────┘         └──────┘              parameters, until all that the
//                                                    stage reads are up to date
//
// If steps are sealed, what a step changes can be undone until it is (see PendingStep): the
// optimiser saves each bucket before it updates it, and no bucket of the step behind it is taken
// before that. So the wait is hidden behind a step's computation. After an error Rewind makes
// parameters, optimisers and buffers what they were before any step, and Run may be called anew
// with its batches.
//
// If ranks have models of their own (see Updater), each has an optimiser of its own, too,
// that is run behind its backward pass, with its own gradient:
//
//   for each rank   batch ─► forward ─► backward ─► optimiser      then   sync
//
// A step that is skipped leaves parameters and optimisers as they were; buffers are what its
// forward passes made of them, and a schedule of the learning rate goes on.
//
// If the model is served, the optimiser is where it is served, and what comes are parameters.
//
// Not thread-safe: everything runs on the caller's thread.
class Trainer {
 public:
  using NextBatch = std::function<absl::StatusOr<Batch>()>;
  // Of each carried rank, in their order; bytes and time are left to the listener.
  using OnStep = std::function<void(absl::Span<const StepRecord>)>;

  // `model` is in training mode. Errors: those of Reducer::Create and FindOptimizer.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(std::shared_ptr<Model> model,
                                                         const TrainerOptions& options);

  // To be attached to an exchange before Run (see Synchronizer), unless nothing is averaged.
  Reducer& reducer() { return *reducer_; }

  // Trains until `next` says OutOfRange in place of a step's first batch (all are done: OK),
  // `stopped` is true between two phases (Cancelled), or an error:
  //   that of `next`, or of the sync (see Synchronizer::NextBucket)
  //   Internal  torch threw
  //   OutOfRange, of Nonfinite::kStop, with kOfAll: names the step, the parameter and perhaps a
  //   rank
  // `next` gives each step's batches, of each carried rank in their order. `sync` is null if
  // nothing is averaged; not so with models of their own. `on_step` hears of each step after its
  // last update, in order. On return no transfer is under way but what the sync delays; unless OK,
  // the last step was abandoned.
  absl::Status Run(const NextBatch& next, Synchronizer* sync, const OnStep& on_step,
                   const std::function<bool()>& stopped);

  // After an error of Run, if steps are sealed: all before `first` are, and it is computed next.
  // To be followed by Reducer::Attach.
  void Rewind(Step first);

  // The first step that is not complete, or the last one.
  Step current_step() const { return current_step_; }
  // When the computation of `step`, one that is not sealed, began, of SteadyNow; none if it has
  // not.
  absl::optional<absl::Time> BegunAt(Step step) const;

 private:
  // What Run was called with.
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
  void Update(size_t bucket);
  absl::Status EndStep(Calls& calls);
  absl::Status EndOwnStep(Calls& calls);
  // The time since `watch` was looked at last counts for a phase of `step`.
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
  // The step that is computed: what was told of its ranks until now, and their times together.
  Step computing_;
  Step next_step_;  // the one behind
  std::vector<StepRecord> reports_;
  PhaseTimes times_;
  // When the last two steps began: by their numbers' last bit.
  std::array<absl::optional<std::pair<Step, absl::Time>>, 2> begun_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_TRAINER_H_
