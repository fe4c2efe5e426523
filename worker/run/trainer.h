#ifndef GRADWIRE_WORKER_RUN_TRAINER_H_
#define GRADWIRE_WORKER_RUN_TRAINER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/base/stopwatch.h"
#include "common/telemetry/step_record.h"
#include "common/telemetry/trace_span.h"
#include "worker/data/batch.h"
#include "worker/ddp/reducer.h"
#include "worker/learning/learning_rate.h"
#include "worker/learning/losses.h"
#include "worker/learning/sliced_optimizer.h"
#include "worker/models/model.h"
#include "worker/run/gates.h"
#include "worker/sync/synchronizer.h"

namespace gradwire {

struct TrainerOptions {
  Loss loss = &CrossEntropy;
  OptimizerOptions optimizer = {};
  LearningRate learning_rate = [](Step) { return 0.1; };
  ReducerOptions reducer = {};
  absl::Duration step_timeout = absl::Seconds(300);
  int64_t micro_batch = 0;    // most samples that are computed at once; 0: the whole batch
  uint64_t seed = 744;        // of what forward passes draw, such as dropout
  bool updates_late = false;  // parameters are updated within the next forward pass
  // Called with all means of a step at hand and none applied, and waits until they may be; its
  // error ends training. Empty: each mean is applied when it comes.
  std::function<absl::Status(Step)> seal = nullptr;
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
// If steps are sealed, a step's means are all taken at its first gate, or at its end, and the
// optimiser runs when `seal` returns. After an error parameters and optimisers then are those of
// the last sealed step, and Run may be called anew, after Reducer::Rewind and Attach, with the
// batches of the step that failed.
//
// If ranks have models of their own (see ReducerOptions), each has an optimiser of its own, too,
// that is run behind its backward pass, with its own gradient:
//
//   for each rank   batch ─► forward ─► backward ─► optimiser      then   sync
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
  // `next` gives each step's batches, of each carried rank in their order. `sync` is null if
  // nothing is averaged; not so with models of their own. `on_step` hears of each step after its
  // last update, in order. On return no transfer is under way but what the sync delays; unless OK,
  // the last step was abandoned.
  absl::Status Run(const NextBatch& next, Synchronizer* sync, const OnStep& on_step,
                   const std::function<bool()>& stopped);

  // The first step that is not complete, or the last one.
  Step current_step() const { return current_step_; }

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
          std::unique_ptr<Reducer> reducer, const OptimizerKind& optimizer);

  absl::Status RunSteps(Calls& calls);
  absl::Status RunStep(absl::StatusOr<Batch> batch, Stopwatch wait, Calls& calls);
  absl::Status RunRank(const Batch& batch, Rank rank, Calls& calls);
  absl::Status Compute(const Batch& batch, Rank rank, Calls& calls, StepRecord* report);
  absl::StatusOr<torch::Tensor> Forward(torch::Tensor images, Calls& calls);
  absl::StatusOr<torch::Tensor> LossOf(const Batch& batch, int64_t first, int64_t count,
                                       Calls& calls, StepRecord* report);
  absl::Status LastBackward(const torch::Tensor& loss, Rank rank, Calls& calls);
  absl::Status PassGate(const std::vector<size_t>& buckets, Calls& calls);
  absl::StatusOr<size_t> AwaitBucket(Calls& calls);
  absl::Status Seal(Calls& calls);
  void Update(size_t bucket, bool averaged);
  void UpdateOwn(Rank rank, double lr);
  absl::Status EndOwnStep(Calls& calls);
  std::vector<SlicedOptimizer>& OptimizersOf(size_t rank);
  // The time since `watch` was looked at last counts for a phase of `step`.
  void Lap(Stopwatch* watch, const char* name, Step step, absl::Duration* phase) const;
  void Report(Calls& calls);
  void Reset();

  const std::shared_ptr<Model> model_;
  const TrainerOptions options_;
  const std::unique_ptr<Reducer> reducer_;
  const std::vector<GatedStage> stages_;
  const OptimizerKind optimizer_;
  // By bucket, once for each carried rank with models of their own, else once.
  std::vector<std::vector<SlicedOptimizer>> optimizers_;
  std::vector<size_t> all_buckets_;

  Step current_step_;
  // The step that is computed: what was told of its ranks until now, and their times together.
  Step computing_;
  std::vector<StepRecord> reports_;
  PhaseTimes times_;
  // A step whose gradients are there, but not all of its updates; empty if there is none.
  std::vector<StepRecord> pending_;
  PhaseTimes pending_times_;
  std::vector<bool> updated_;  // by bucket, in the pending step
  size_t to_update_ = 0;       // how many buckets are not
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_TRAINER_H_
