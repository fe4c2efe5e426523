#ifndef GRADWIRE_WORKER_RUN_TRAINER_H_
#define GRADWIRE_WORKER_RUN_TRAINER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "common/telemetry/phase_times.h"
#include "common/telemetry/trace_span.h"
#include "worker/data/batch.h"
#include "worker/ddp/buffer_pack.h"
#include "worker/ddp/flat_gradient.h"
#include "worker/ddp/gradient_hooks.h"
#include "worker/ddp/sliced_sgd.h"
#include "worker/models/model.h"
#include "worker/run/stopwatch.h"
#include "worker/sync/synchronizer.h"

namespace gradwire {

struct TrainerOptions {
  double lr = 0.1;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  bool broadcast_buffers = true;
  double bucket_cap_bytes = 25 << 20;
  absl::Duration step_timeout = absl::Seconds(300);
  int64_t micro_batch = 0;   // most samples that are computed at once; 0: the whole batch
  bool barrier = false;      // update all parameters before the next forward pass begins
  OnSpan on_span = nullptr;  // hears of data, forward, backward, wait and optimizer
};

// What one step did.
struct StepReport {
  Step step;
  int64_t epoch = 0;
  int64_t samples = 0;
  int64_t padded = 0;   // of the samples, repeats
  double loss = 0;      // mean over this rank's batch, before the update
  int64_t correct = 0;  // of the samples, those that the model got right, likewise
  PhaseTimes times;
};

// One rank's part in training:
//
//   batch ─► forward ─► backward ─► sync (mean of all ranks) ─► optimiser
//
// A batch of more than micro_batch samples goes through forward and backward in
// pieces whose gradients add up; what is exchanged is their sum.
//
// With a sync that updates late, the optimiser runs within the forward pass of
// the step behind, a bucket at a time, with the same bits:
//
//   forward   ┌ gate ┐ stage 0 ┌ gate ┐ stage 1 …    gate: takes means and updates
//             └──────┘         └──────┘              parameters, until all that the
//                                                    stage reads are up to date
//
// SGD with momentum and weight decay, as torch.optim.SGD. Cross entropy. Not
// thread-safe: everything runs on the caller's thread.
class Trainer {
 public:
  using NextBatch = std::function<absl::StatusOr<Batch>()>;
  using OnStep = std::function<void(const StepReport&)>;

  // `model` is in training mode.
  Trainer(std::shared_ptr<Model> model, const TrainerOptions& options);

  // The layout of what a step exchanges, for Hello.
  std::vector<BucketSpec> BucketSpecs() const;

  // Trains until `next` says OutOfRange (all batches are done: OK), `stopped`
  // is true between two phases (Cancelled), or an error:
  //   that of `next`, or of the sync (see Backend::Done)
  //   Internal  torch threw
  // `on_step` hears of each step after its last update, in order. On return no
  // transfer is under way; unless OK, the sync was told to abandon the last step.
  absl::Status Run(const NextBatch& next, Synchronizer& sync, const OnStep& on_step,
                   const std::function<bool()>& stopped);

  // The first step that is not complete, or the last one.
  Step current_step() const { return current_step_; }

 private:
  struct GatedStage {
    std::function<torch::Tensor(torch::Tensor)> forward;
    std::vector<size_t> buckets;  // that hold what it reads
  };
  // What Run was called with.
  struct Calls {
    const NextBatch& next;
    Synchronizer& sync;
    const OnStep& on_step;
    const std::function<bool()>& stopped;
    Stopwatch iteration;
  };

  std::vector<GatedStage> GateStages();
  absl::Status RunSteps(Calls& calls);
  absl::Status Compute(const Batch& batch, Calls& calls, StepReport* report);
  absl::StatusOr<torch::Tensor> Forward(torch::Tensor images, Calls& calls, PhaseTimes* times);
  void Backward(const torch::Tensor& loss, bool last, Calls& calls, PhaseTimes* times);
  void BeginExchange(Synchronizer& sync);
  absl::Status PassGate(const std::vector<size_t>& buckets, Calls& calls);
  void Update(size_t bucket, bool averaged);
  // The time since `watch` was looked at last counts for a phase of `step`.
  void Lap(Stopwatch* watch, const char* name, Step step, absl::Duration* phase) const;
  void Report(Calls& calls);
  void Reset();

  const std::shared_ptr<Model> model_;
  const TrainerOptions options_;
  FlatGradient gradient_;
  BufferPack buffers_;  // empty if buffers are not broadcast
  GradientHooks hooks_;
  std::vector<SlicedSgd> optimizers_;  // by bucket
  std::vector<GatedStage> stages_;
  std::vector<size_t> all_buckets_;

  Step current_step_;
  Step computing_;  // the step of the last batch
  // A step whose gradients are there, but not all of its updates.
  absl::optional<StepReport> pending_;
  std::vector<bool> updated_;  // by bucket, in the pending step
  size_t to_update_ = 0;       // how many buckets are not
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_TRAINER_H_
