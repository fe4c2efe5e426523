#ifndef GRADWIRE_WORKER_TRAINER_H_
#define GRADWIRE_WORKER_TRAINER_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "common/phase_times.h"
#include "worker/batch.h"
#include "worker/buffer_pack.h"
#include "worker/flat_gradient.h"
#include "worker/models/model.h"
#include "worker/sync/synchronizer.h"

namespace gradwire {

struct TrainerOptions {
  double lr = 0.1;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  bool broadcast_buffers = true;
  double bucket_cap_bytes = 25 << 20;
  absl::Duration step_timeout = absl::Seconds(300);
};

// What one step did.
struct StepReport {
  Step step;
  int64_t epoch = 0;
  int64_t samples = 0;
  int64_t padded = 0;  // of the samples, repeats
  double loss = 0;     // mean over this rank's batch, before the update
  PhaseTimes times;
};

// One rank's part in training:
//
//   batch ─► forward ─► backward ─► sync (mean of all ranks) ─► optimiser
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
  // `on_step` hears of each step after its update.
  absl::Status Run(const NextBatch& next, Synchronizer& sync, const OnStep& on_step,
                   const std::function<bool()>& stopped);

  // The step under way, or the last one.
  Step current_step() const { return current_step_; }

 private:
  absl::StatusOr<StepReport> RunStep(const Batch& batch, Synchronizer& sync,
                                     const std::function<bool()>& stopped);
  StepBuckets Buckets();
  absl::Status Exchange(Synchronizer& sync);

  const std::shared_ptr<Model> model_;
  const TrainerOptions options_;
  FlatGradient gradient_;
  BufferPack buffers_;  // empty if buffers are not broadcast
  torch::optim::SGD optimizer_;
  Step current_step_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_TRAINER_H_
