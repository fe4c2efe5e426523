#ifndef GRADWIRE_WORKER_LEARNING_UPDATE_H_
#define GRADWIRE_WORKER_LEARNING_UPDATE_H_

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "worker/learning/optimizer.h"

namespace gradwire {

// How SlicedOptimizer computes; its methods describe these. `state` is empty or fits the
// parameters.
class Update {
 public:
  virtual ~Update() = default;
  virtual void Step(const torch::Tensor& gradient, double learning_rate) = 0;
  virtual void Save() = 0;
  virtual void Undo() = 0;
  virtual std::vector<torch::Tensor> State() const = 0;
  virtual void SetState(const std::vector<torch::Tensor>& state) = 0;
};

// Slices of the parameters go through the optimizer of torch, which makes several passes over each.
std::unique_ptr<Update> MakeTorchUpdate(absl::Span<const torch::Tensor> parameters,
                                        const OptimizerKind& kind);

// One pass over the parameters. `kind` has a kernel.
std::unique_ptr<Update> MakeFusedUpdate(absl::Span<const torch::Tensor> parameters,
                                        const OptimizerKind& kind);

// Returns the best kernel that gives the bits of the optimizer that `kind` makes, in this process:
// torch's bits depend on its instruction set. Null if none does.
FusedKernel FindFusedKernel(const OptimizerKind& kind);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_LEARNING_UPDATE_H_
