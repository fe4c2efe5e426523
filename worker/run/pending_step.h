#ifndef GRADWIRE_WORKER_RUN_PENDING_STEP_H_
#define GRADWIRE_WORKER_RUN_PENDING_STEP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/telemetry/phases.h"
#include "common/telemetry/step_record.h"
#include "common/wire/layout.h"
#include "worker/ddp/reducer.h"
#include "worker/learning/optimizer.h"
#include "worker/learning/sliced_optimizer.h"
#include "worker/models/model.h"

namespace gradwire {

// What to do in a step whose mean gradient has an infinity or NaN. All workers have the same mean,
// so they act alike.
enum class Nonfinite { kIgnore, kStop, kSkip };

// Whether all workers end with this error in the same step: an error of Nonfinite::kStop, which has
// this payload.
inline constexpr char kOfAll[] = "gradwire/of-all";
inline bool IsOfAll(const absl::Status& status) { return status.GetPayload(kOfAll).has_value(); }

struct UpdateOptions {
  OptimizerOptions optimizer = {};
  Nonfinite on_nonfinite = Nonfinite::kIgnore;  // kSkip: not with late updates
  // Largest norm of the gradient over all parameters; a longer gradient is scaled down before the
  // update, as by torch's clip_grad_norm_; 0: no limit. Not with late updates, nor with
  // Updater::kServer.
  double clip_norm = 0;
  // Parameters are compared after each step that this divides, and after the first step of each
  // view; 0: never.
  int64_t compare_every = 0;
};

// The step whose gradients have arrived: its updates, bucket by bucket, and, until it is sealed,
// the data to undo them.
//
//   Begin ─► Update of each bucket ─► End          and then, if it is sealed:  Keep or Rewind
//
// There is an implementation for each Updater: one optimizer applies the mean of all ranks; each
// rank's optimizer applies its own gradient; or the parameters arrive. Not thread-safe.
class PendingStep {
 public:
  // `model` and its `reducer` must outlive it. NotFound as in FindOptimizer.
  static absl::StatusOr<std::unique_ptr<PendingStep>> Create(const Model* model, Reducer* reducer,
                                                             const UpdateOptions& options);
  virtual ~PendingStep() = default;
  PendingStep(const PendingStep&) = delete;
  PendingStep& operator=(const PendingStep&) = delete;

  // Called during the computation of a step when all terms of `rank`, carried rank `index`, are
  // complete.
  virtual void OnRankDone(size_t index, Rank rank, double lr);

  // Returns the optimizers of carried rank `index`, by gradient bucket; equal for all ranks if one
  // optimizer applies the mean of all. Empty if the optimizer runs elsewhere.
  virtual absl::Span<SlicedOptimizer> Optimizers(size_t /*index*/) { return {}; }

  // Begins the updates. `reports`: one for each rank of the step; `times`: the sum of their times.
  // `averaged`: the gradient is the mean of all ranks; else it is the gradient of the only rank.
  void Begin(std::vector<StepRecord> reports, const PhaseTimes& times, bool averaged);
  // True from Begin to TakeReports or Drop.
  bool begun() const { return !reports_.empty(); }
  Step step() const { return reports_.front().step; }
  PhaseTimes& times() { return times_; }
  // Gives up the step.
  void Drop() { reports_.clear(); }

  // Updates the parameters of a bucket whose result has arrived. (The reducer has updated buffers.)
  void Update(size_t bucket);
  bool IsUpdated(size_t bucket) const { return updated_[bucket]; }
  bool IsComplete() const { return to_update_ == 0; }
  // Called after the last Update. With Nonfinite::kStop returns OutOfRange with kOfAll, which names
  // the step, the parameter and perhaps a rank. Undoes a step that is skipped.
  virtual absl::Status End() { return absl::OkStatus(); }
  // Returns the reports with their times. The step is done.
  std::vector<StepRecord> TakeReports(absl::Duration iteration);

  // Makes the step undoable from the next Update on, if steps are sealed. At most one step is; see
  // Keep.
  void MakeUndoable() { undoable_ = step(); }
  absl::optional<Step> undoable() const { return undoable_; }
  // Returns, after End, the digests of the updated parameters by tensor, if this step compares
  // them.
  std::vector<TensorDigest> TakeDigests();
  // Declares the step sealed: it will never be undone.
  void Keep();
  // Undoes the step if it is `first` or later, else keeps it: all steps from `first` on will be
  // computed again. Parameters and optimizers get their state before `first`.
  void Rewind(Step first);

 protected:
  PendingStep(const Model* model, Reducer* reducer, const UpdateOptions& options)
      : model_(model), reducer_(reducer), options_(options) {}

  // Apply updates one gradient bucket; ApplyRest runs after the last bucket of the step.
  virtual void Apply(size_t bucket) = 0;
  virtual void ApplyRest() {}
  // Undo restores parameters and optimizers to their state when undoable_ was set; Forget drops
  // that state.
  virtual void Undo() {}
  virtual void Forget() {}

  // Returns the gradient of `bucket`: the mean of all ranks if it is averaged, else the only
  // rank's.
  torch::Tensor GradientOf(size_t bucket) const {
    return averaged_ ? reducer_->mean(bucket) : reducer_->terms(bucket, reducer_->ranks().front());
  }
  bool IsCompared() const;
  void AddDigests(size_t bucket);

  const Model* const model_;
  Reducer* const reducer_;
  const UpdateOptions options_;
  std::vector<StepRecord> reports_;  // of a step that has begun; else empty
  absl::optional<Step> undoable_;

 private:
  PhaseTimes times_;
  bool averaged_ = false;
  std::vector<bool> updated_;  // by bucket
  size_t to_update_ = 0;       // how many buckets are not updated
  Step first_;                 // of the view
  std::vector<TensorDigest> digests_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_PENDING_STEP_H_
