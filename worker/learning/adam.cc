#include <utility>

#include "worker/learning/optimizer.h"

namespace gradwire {
namespace {

// Adam and AdamW keep the same, under different types.
template <typename Optimizer, typename Options, typename State>
OptimizerKind KindOf(const OptimizerOptions& options) {
  Options of_torch;
  of_torch.weight_decay(options.weight_decay);
  OptimizerKind kind;
  kind.make = [of_torch](std::vector<torch::Tensor> tensors) {
    return std::make_unique<Optimizer>(std::move(tensors), of_torch);
  };
  kind.dimensions = {0, 1, 1};
  kind.tensors_of = [](const torch::optim::OptimizerParamState& any) {
    const auto& state = static_cast<const State&>(any);
    return std::vector<torch::Tensor>{torch::scalar_tensor(state.step(), torch::kLong),
                                      state.exp_avg(), state.exp_avg_sq()};
  };
  kind.state_of = [](const std::vector<torch::Tensor>& tensors) {
    auto state = std::make_unique<State>();
    state->step(tensors[0].item<int64_t>());
    state->exp_avg(tensors[1]);
    state->exp_avg_sq(tensors[2]);
    return state;
  };
  return kind;
}

}  // namespace

OptimizerKind Adam(const OptimizerOptions& options) {
  return KindOf<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState>(
      options);
}

OptimizerKind AdamW(const OptimizerOptions& options) {
  return KindOf<torch::optim::AdamW, torch::optim::AdamWOptions, torch::optim::AdamWParamState>(
      options);
}

}  // namespace gradwire
