#ifndef GRADWIRE_WORKER_LEARNING_OPTIMIZER_H_
#define GRADWIRE_WORKER_LEARNING_OPTIMIZER_H_

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gradwire {

struct OptimizerOptions {
  std::string name = "sgd";  // see optimizers.inc
  double momentum = 0.9;     // of those that have one
  double weight_decay = 1e-4;
  bool nesterov = false;  // likewise; needs a momentum above 0
};

// What SlicedOptimizer has to know of one of torch's optimisers.
struct OptimizerKind {
  // One for these tensors. Its learning rate is set before each step.
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)> make;
  // Dimensions of what it keeps of a tensor: 1 for as many float32 as the tensor has elements,
  // 0 for one int64 that is the same for all tensors.
  std::vector<int64_t> dimensions;
  // That, of one dimension or none, shared; empty as long as there is none.
  std::function<std::vector<torch::Tensor>(const torch::optim::OptimizerParamState&)> tensors_of;
  // The state that has these.
  std::function<std::unique_ptr<torch::optim::OptimizerParamState>(
      const std::vector<torch::Tensor>&)>
      state_of;
};

// The optimiser that `options` name. NotFound lists the names.
absl::StatusOr<OptimizerKind> FindOptimizer(const OptimizerOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_LEARNING_OPTIMIZER_H_
