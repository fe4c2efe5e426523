#ifndef GRADWIRE_WORKER_LEARNING_OPTIMIZER_H_
#define GRADWIRE_WORKER_LEARNING_OPTIMIZER_H_

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/learning/fused_kernels.h"

namespace gradwire {

struct OptimizerOptions {
  std::string name = "sgd";  // see optimizers.inc
  double momentum = 0.9;     // if the optimizer has one
  double weight_decay = 1e-4;
  bool nesterov = false;  // needs a momentum above 0
};

// What SlicedOptimizer needs to know of an optimizer of torch.
struct OptimizerKind {
  // Makes one for these tensors. Its learning rate is set before each step.
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)> make;
  // Dimensions of the state for a tensor: 1 for as many float32 as the tensor has elements, 0 for
  // one int64 that is equal for all tensors.
  std::vector<int64_t> dimensions;
  // Names of that state in torch, such as "momentum_buffer"; one for each of `dimensions`.
  std::vector<std::string> names;
  // Returns that state as shared tensors of one dimension or none; empty while there is none.
  std::function<std::vector<torch::Tensor>(const torch::optim::OptimizerParamState&)> tensors_of;
  // Makes the state from these tensors.
  std::function<std::unique_ptr<torch::optim::OptimizerParamState>(
      const std::vector<torch::Tensor>&)>
      state_of;
  // The same update as one pass; null: only torch computes it. FindOptimizer checks that `kernel`
  // gives torch's bits in this process.
  FusedRule fused = {};
  FusedKernel kernel = nullptr;
};

// Returns the optimizer of `options`. NotFound lists the names.
absl::StatusOr<OptimizerKind> FindOptimizer(const OptimizerOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_LEARNING_OPTIMIZER_H_
