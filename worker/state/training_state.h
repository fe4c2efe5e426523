#ifndef GRADWIRE_WORKER_STATE_TRAINING_STATE_H_
#define GRADWIRE_WORKER_STATE_TRAINING_STATE_H_

#include <torch/torch.h>

#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/backends/kept_values.h"
#include "worker/ddp/reducer.h"
#include "worker/learning/sliced_optimizer.h"
#include "worker/models/model.h"
#include "worker/state/state_owner.h"
#include "worker/sync/synchronizer.h"

namespace gradwire {

// The parts of a trainer that have state; all outlive their user. Batches, learning rates and
// random numbers are functions of (seed, step, rank), so they have none.
struct TrainingParts {
  Model* model = nullptr;
  Reducer* reducer = nullptr;
  Synchronizer* sync = nullptr;
  // Returns the optimizers of the carried rank with this index; see Trainer::Optimizers.
  std::function<absl::Span<SlicedOptimizer>(size_t)> optimizers;
  // Returns what the exchange of the gradients keeps (Exchange::Kept); may be empty.
  std::function<std::vector<KeptValues>()> kept = nullptr;
  bool broadcast = true;  // all ranks have rank 0's buffers
  bool undoable = false;  // see ReducerOptions
};

// The state of a trainer:
//
//   model      parameters; of a sync that exchanges models, the model of the last exchange
//   optimizer  of the mean of all ranks
//   ranks      buffers: rank 0's if they are broadcast, else of each carried rank; of a sync that
//              exchanges models also each carried rank's model and optimizer. Buffers that
//              training does not change stand once, as rank 0's
//   outer      of a sync that exchanges models: the outer step
//   codec, residuals   what the exchange keeps
//
// RestoreCommon is for before Attach, RestoreOwn for after each Attach before the first step. After
// Copy the module has the buffers of the last carried rank.
class TrainingState : public StateOwner {
 public:
  explicit TrainingState(TrainingParts parts) : parts_(std::move(parts)) {}

  bool IsAtBorder() const override { return parts_.sync->IsAtBorder(); }
  std::vector<StateTensorRef> Copy() override;
  absl::Status RestoreCommon(const StateReader& reader) override;
  absl::Status RestoreOwn(const StateReader& reader) override;

 private:
  const TrainingParts parts_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_STATE_TRAINING_STATE_H_
