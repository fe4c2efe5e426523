#include <utility>

#include "worker/learning/optimizer.h"

namespace gradwire {

OptimizerKind Sgd(const OptimizerOptions& options) {
  using State = torch::optim::SGDParamState;
  const auto of_torch = torch::optim::SGDOptions(0)
                            .momentum(options.momentum)
                            .weight_decay(options.weight_decay)
                            .nesterov(options.nesterov);
  OptimizerKind kind;
  kind.make = [of_torch](std::vector<torch::Tensor> tensors) {
    return std::make_unique<torch::optim::SGD>(std::move(tensors), of_torch);
  };
  kind.dimensions = {1};
  kind.tensors_of = [](const torch::optim::OptimizerParamState& state) {
    const torch::Tensor& momentum = static_cast<const State&>(state).momentum_buffer();
    return momentum.defined() ? std::vector<torch::Tensor>{momentum} : std::vector<torch::Tensor>();
  };
  kind.state_of = [](const std::vector<torch::Tensor>& tensors) {
    auto state = std::make_unique<State>();
    state->momentum_buffer(tensors[0]);
    return state;
  };
  return kind;
}

}  // namespace gradwire
