#include "worker/models/emulated_model.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "worker/models/layer_costs.h"

namespace gradwire {
namespace {

constexpr uint64_t kSeed = 744;
constexpr double kGradientScale = 1e-4;

void SleepFor(const EmulatedLayer& layer, double seconds_of_sample, int64_t samples) {
  layer.sleep->For(absl::Seconds(seconds_of_sample * static_cast<double>(samples)));
}

// Returns the gradients without a copy. A .grad from an earlier pass is added to in place, so it
// must not be the layer's own.
std::vector<torch::Tensor> GradientsOf(const EmulatedLayer& layer) {
  std::vector<torch::Tensor> gradients;
  for (size_t i = 0; i < layer.parameters.size(); ++i) {
    torch::Tensor& before = layer.parameters[i].mutable_grad();
    if (before.defined()) before = before.clone();
    gradients.push_back(layer.gradients[i].detach());
  }
  return gradients;
}

class Sleep : public torch::autograd::Function<Sleep> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& input, at::TensorList /*parameters*/,
                               const c10::intrusive_ptr<EmulatedLayer>& layer) {
    context->saved_data["layer"] = c10::IValue::make_capsule(layer);
    SleepFor(*layer, layer->forward_seconds, input.size(0));
    return input.clone();
  }

  // For all arguments of forward(), each parameter separately.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list outputs) {
    const auto capsule = context->saved_data["layer"].toCapsule();
    const auto& layer = static_cast<const EmulatedLayer&>(*capsule);
    SleepFor(layer, layer.backward_seconds, outputs[0].size(0));
    torch::autograd::variable_list inputs = {outputs[0]};
    for (torch::Tensor& gradient : GradientsOf(layer)) inputs.push_back(std::move(gradient));
    inputs.emplace_back();
    return inputs;
  }
};

torch::Tensor RunLayer(const torch::Tensor& input, const c10::intrusive_ptr<EmulatedLayer>& layer) {
  return Sleep::apply(input, at::TensorList(layer->parameters), layer);
}

// Returns as many as the largest parameter has, in one dimension.
torch::Tensor DrawNumbers(const std::vector<LayerCost>& costs) {
  int64_t most = 0;
  for (const LayerCost& layer : costs) {
    for (const torch::Tensor& parameter : layer.parameters) {
      most = std::max(most, parameter.numel());
    }
  }
  return torch::randn({most}, at::detail::createCPUGenerator(kSeed)).mul_(kGradientScale);
}

std::vector<torch::Tensor> GradientsFrom(const torch::Tensor& numbers,
                                         const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : parameters) {
    gradients.push_back(numbers.narrow(0, 0, parameter.numel()).view(parameter.sizes()));
  }
  return gradients;
}

// No backward pass goes through a frozen layer.
std::vector<LayerCost> TrainedOnly(std::vector<LayerCost> costs) {
  for (LayerCost& layer : costs) {
    if (!layer.parameters.front().requires_grad()) layer.multiply_adds = 0;
  }
  return costs;
}

bool HasOneOf(const Stage& stage, const std::vector<torch::Tensor>& parameters) {
  return std::any_of(parameters.begin(), parameters.end(), [&](const torch::Tensor& parameter) {
    const auto is_it = [&](const torch::Tensor& other) { return other.is_same(parameter); };
    return std::any_of(stage.parameters.begin(), stage.parameters.end(), is_it);
  });
}

}  // namespace

EmulatedModel::EmulatedModel(std::shared_ptr<Model> model, const ImageShape& shape, int64_t classes,
                             const ComputeSeconds& seconds, int64_t batch_size)
    : model_(std::move(model)), classes_(classes) {
  ShowAsOwn();
  const torch::Tensor sample = torch::zeros({1, shape.channels, shape.height, shape.width});
  const std::vector<LayerCost> costs = CountMultiplyAdds(model_.get(), sample);
  const double samples = static_cast<double>(batch_size);
  const std::vector<double> forward = ShareOut(seconds.forward / samples, costs);
  const std::vector<double> backward = ShareOut(seconds.backward / samples, TrainedOnly(costs));
  const auto sleep = std::make_shared<PacedSleep>();
  const torch::Tensor numbers = DrawNumbers(costs);
  for (size_t i = 0; i < costs.size(); ++i) {
    auto layer = c10::make_intrusive<EmulatedLayer>();
    layer->parameters = costs[i].parameters;
    layer->gradients = GradientsFrom(numbers, costs[i].parameters);
    layer->forward_seconds = forward[i];
    layer->backward_seconds = backward[i];
    layer->sleep = sleep;
    layers_.push_back(std::move(layer));
  }
}

// All tensors keep their names and order.
void EmulatedModel::ShowAsOwn() {
  for (const auto& parameter : model_->named_parameters(/*recurse=*/false)) {
    register_parameter(parameter.key(), parameter.value(), parameter.value().requires_grad());
  }
  for (const auto& buffer : model_->named_buffers(/*recurse=*/false)) {
    register_buffer(buffer.key(), buffer.value());
  }
  for (const auto& child : model_->named_children()) register_module(child.key(), child.value());
}

void EmulatedModel::train(bool on) {
  Model::train(on);
  model_->train(on);  // it may keep a part in evaluation mode
}

torch::Tensor EmulatedModel::Begin(const torch::Tensor& images) const {
  return torch::zeros({images.size(0), classes_});
}

torch::Tensor EmulatedModel::forward(torch::Tensor images) {
  torch::Tensor scores = Begin(images);
  for (const auto& layer : layers_) scores = RunLayer(scores, layer);
  return scores;
}

// A layer sleeps in the stage that reads its parameters.
std::vector<Stage> EmulatedModel::stages() {
  std::vector<Stage> stages = model_->stages();
  for (size_t i = 0; i < stages.size(); ++i) {
    Layers own;
    for (const auto& layer : layers_) {
      if (HasOneOf(stages[i], layer->parameters)) own.push_back(layer);
    }
    stages[i].forward = [this, own = std::move(own), first = i == 0](torch::Tensor input) {
      if (first) input = Begin(input);
      for (const auto& layer : own) input = RunLayer(input, layer);
      return input;
    };
  }
  return stages;
}

}  // namespace gradwire
