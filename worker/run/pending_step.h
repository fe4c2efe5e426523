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
#include "common/base/ids.h"
#include "common/telemetry/phases.h"
#include "common/telemetry/step_record.h"
#include "common/wire/layout.h"
#include "worker/ddp/reducer.h"
#include "worker/learning/optimizer.h"
#include "worker/models/model.h"

namespace gradwire {

// What becomes of a step whose mean gradient has an infinity or NaN. All workers have the same
// mean, so they do the same.
enum class Nonfinite { kIgnore, kStop, kSkip };

// Whether an error is one that all workers end with, in the same step: that of Nonfinite::kStop,
// which has this payload.
inline constexpr char kOfAll[] = "gradwire/of-all";
inline bool IsOfAll(const absl::Status& status) { return status.GetPayload(kOfAll).has_value(); }

struct UpdateOptions {
  OptimizerOptions optimizer = {};
  Nonfinite on_nonfinite = Nonfinite::kIgnore;  // kSkip: not with updates that are late
  // The most that the gradient's norm may be: that of all parameters together. A longer one is
  // scaled down to it before the update, as torch's clip_grad_norm_ does it; 0: as it comes. Not
  // with updates that are late, nor with Updater::kServer.
  double clip_norm = 0;
  // Parameters are compared after each step whose number this divides, and after the first of each
  // view; 0: never.
  int64_t compare_every = 0;
};

// The step whose gradients are there: its updates, bucket by bucket, and, if steps are sealed, what
// it takes to undo them until it is.
//
//   Begin ─► Update of each bucket ─► End          and then, if it is sealed:  Keep or Rewind
//
// There is an implementation for each Updater: the mean of all ranks goes through one optimizer;
// each rank's own gradient goes through its own; or what comes are the parameters.
// Not thread-safe.
class PendingStep {
 public:
  // `model` and `reducer`, which is the model's, outlive it. NotFound as FindOptimizer.
  static absl::StatusOr<std::unique_ptr<PendingStep>> Create(const Model* model, Reducer* reducer,
                                                             const UpdateOptions& options);
  virtual ~PendingStep() = default;
  PendingStep(const PendingStep&) = delete;
  PendingStep& operator=(const PendingStep&) = delete;

  // While a step is computed: all terms of `rank`, carried rank number `index`, are there.
  virtual void OnRankDone(size_t index, Rank rank, double lr);

  // `reports` of the step's ranks, one or more, and their times together. `averaged`: over all
  // ranks; else its gradient is that of the only one.
  void Begin(std::vector<StepRecord> reports, const PhaseTimes& times, bool averaged);
  // From Begin to TakeReports or Drop.
  bool begun() const { return !reports_.empty(); }
  Step step() const { return reports_.front().step; }
  PhaseTimes& times() { return times_; }
  // It will not be completed.
  void Drop() { reports_.clear(); }

  // The result of the bucket is there, and the parameters become what it makes of them. Of buffers
  // the reducer has done that.
  void Update(size_t bucket);
  bool IsUpdated(size_t bucket) const { return updated_[bucket]; }
  bool IsComplete() const { return to_update_ == 0; }
  // After the last Update. OutOfRange with kOfAll, of Nonfinite::kStop: names the step, the
  // parameter and perhaps a rank. A step that is skipped is undone.
  virtual absl::Status End() { return absl::OkStatus(); }
  // With their times. The step is done.
  std::vector<StepRecord> TakeReports(absl::Duration iteration);

  // Steps are sealed: from the next Update on it can be undone. At most one can; see Keep.
  void MakeUndoable() { undoable_ = step(); }
  absl::optional<Step> undoable() const { return undoable_; }
  // After End, of the parameters that were updated, by tensor, if they are compared in this step.
  std::vector<TensorDigest> TakeDigests();
  // It is sealed, and will never be undone.
  void Keep();
  // It and what is behind it will be computed anew from step `first` on; or, if it is before that
  // step, it is kept. Parameters and optimizers are what they were before `first`.
  void Rewind(Step first);

 protected:
  PendingStep(const Model* model, Reducer* reducer, const UpdateOptions& options)
      : model_(model), reducer_(reducer), options_(options) {}

  // Of a gradient bucket; and after the last bucket of the step.
  virtual void Apply(size_t bucket) = 0;
  virtual void ApplyRest() {}
  // Makes parameters and optimizers what they were before what was applied since undoable_ was set,
  // or forgets how.
  virtual void Undo() {}
  virtual void Forget() {}

  // The gradient of `bucket`: the mean of all ranks if it is averaged, else that of the only one.
  torch::Tensor GradientOf(size_t bucket) const {
    return averaged_ ? reducer_->mean(bucket) : reducer_->terms(bucket, reducer_->ranks().front());
  }
  bool IsCompared() const;
  void AddDigests(size_t bucket);

  const Model* const model_;
  Reducer* const reducer_;
  const UpdateOptions options_;
  std::vector<StepRecord> reports_;  // of a step that is begun; else empty
  absl::optional<Step> undoable_;

 private:
  PhaseTimes times_;
  bool averaged_ = false;
  std::vector<bool> updated_;  // by bucket
  size_t to_update_ = 0;       // how many are not
  Step first_;                 // of the view
  std::vector<TensorDigest> digests_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_PENDING_STEP_H_
