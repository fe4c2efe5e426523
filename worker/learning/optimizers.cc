#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/learning/optimizer.h"
#include "worker/learning/update.h"

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
  kind.names = {"momentum_buffer"};
  kind.tensors_of = [](const torch::optim::OptimizerParamState& state) {
    const torch::Tensor& momentum = static_cast<const State&>(state).momentum_buffer();
    return momentum.defined() ? std::vector<torch::Tensor>{momentum} : std::vector<torch::Tensor>();
  };
  kind.state_of = [](const std::vector<torch::Tensor>& tensors) {
    auto state = std::make_unique<State>();
    state->momentum_buffer(tensors[0]);
    return state;
  };
  kind.fused.weight_decay = options.weight_decay;
  kind.fused.momentum = options.momentum;
  kind.fused.nesterov = options.nesterov;
  return kind;
}

namespace {

// Adam and AdamW have the same state, under different types.
template <typename Optimizer, typename Options, typename State>
OptimizerKind KindOf(const OptimizerOptions& options, bool decoupled) {
  Options of_torch;
  of_torch.weight_decay(options.weight_decay);
  OptimizerKind kind;
  kind.make = [of_torch](std::vector<torch::Tensor> tensors) {
    return std::make_unique<Optimizer>(std::move(tensors), of_torch);
  };
  kind.dimensions = {0, 1, 1};
  kind.names = {"step", "exp_avg", "exp_avg_sq"};
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
  kind.fused.kind = FusedRule::Kind::kAdam;
  kind.fused.weight_decay = options.weight_decay;
  kind.fused.decoupled = decoupled;
  std::tie(kind.fused.beta1, kind.fused.beta2) = of_torch.betas();
  kind.fused.eps = of_torch.eps();
  return kind;
}

}  // namespace

OptimizerKind Adam(const OptimizerOptions& options) {
  return KindOf<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState>(
      options, /*decoupled=*/false);
}

OptimizerKind AdamW(const OptimizerOptions& options) {
  return KindOf<torch::optim::AdamW, torch::optim::AdamWOptions, torch::optim::AdamWParamState>(
      options, /*decoupled=*/true);
}

// Each row's factory is in its own file or its family's.
#define GRADWIRE_OPTIMIZER(name, factory, ...) OptimizerKind factory(const OptimizerOptions&);
#include "worker/options/optimizers.inc"
#undef GRADWIRE_OPTIMIZER

namespace {

OptimizerKind WithKernel(OptimizerKind kind) {
  kind.kernel = FindFusedKernel(kind);
  return kind;
}

}  // namespace

absl::StatusOr<OptimizerKind> FindOptimizer(const OptimizerOptions& options) {
#define GRADWIRE_OPTIMIZER(row_name, factory, ...) \
  if (options.name == row_name) return WithKernel(factory(options));
#include "worker/options/optimizers.inc"
#undef GRADWIRE_OPTIMIZER
  std::string names;
#define GRADWIRE_OPTIMIZER(row_name, ...) absl::StrAppend(&names, " ", row_name);
#include "worker/options/optimizers.inc"
#undef GRADWIRE_OPTIMIZER
  return absl::NotFoundError(
      absl::StrCat("optimizer '", options.name, "' does not exist; expected one of:", names));
}

}  // namespace gradwire
