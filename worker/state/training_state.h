#ifndef GRADWIRE_WORKER_STATE_TRAINING_STATE_H_
#define GRADWIRE_WORKER_STATE_TRAINING_STATE_H_

#include <torch/torch.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gradwire/v1/state.pb.h"
#include "worker/ddp/reducer.h"
#include "worker/learning/sliced_optimizer.h"
#include "worker/models/model.h"
#include "worker/state/state_copy.h"
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
  bool broadcast = true;  // all ranks have rank 0's buffers
  bool undoable = false;  // see ReducerOptions
};

// Copies the state between two steps, when no update and no exchange is under way:
//
//   model      parameters; of a sync that exchanges models, the model of the last exchange
//   optimizer  of the mean of all ranks
//   ranks      buffers: rank 0's if they are broadcast, else of each carried rank; of a sync that
//              exchanges models also each carried rank's model and optimizer
//   outer      of a sync that exchanges models: the outer step
//
// Does not change the state; the module then has the buffers of the last carried rank.
std::vector<StateTensorRef> CopyState(const TrainingParts& parts);

// Restores such a state, before the first step:
//
//   BeforeAttach   what all workers share
//   AfterAttach    of each carried rank; after every Attach before the first step
//
// Both return InvalidArgument, which names the tensor, if the state does not fit the trainer, or an
// error of `fetch`.
class StateRestorer {
 public:
  // Fills `tensor` (contiguous, on the CPU) with the values of a tensor of `catalog`.
  using Fetch = std::function<absl::Status(const std::string& section, const std::string& key,
                                           const torch::Tensor& tensor)>;

  StateRestorer(TrainingParts parts, v1::StateCatalog catalog, Fetch fetch)
      : parts_(std::move(parts)), catalog_(std::move(catalog)), fetch_(std::move(fetch)) {}

  absl::Status BeforeAttach();
  absl::Status AfterAttach();

 private:
  const v1::StateTensor* Find(const std::string& section, const std::string& key) const;
  absl::Status Get(const std::string& section, const std::string& key,
                   const torch::Tensor& tensor) const;
  absl::Status GetOptimizer(const std::string& section, const std::string& prefix,
                            absl::Span<SlicedOptimizer> optimizers) const;
  absl::Status GetOptimizerOfBucket(const std::string& section, const std::string& prefix,
                                    size_t bucket, SlicedOptimizer* optimizer) const;
  absl::Status GetRank(size_t index) const;
  absl::Status GetOuter() const;

  const TrainingParts parts_;
  const v1::StateCatalog catalog_;
  const Fetch fetch_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_STATE_TRAINING_STATE_H_
