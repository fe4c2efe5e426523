#include "worker/models/layer_costs.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace gradwire {
namespace {

// Basic operators of torch; the others call these.
constexpr absl::string_view kConvolution = "aten::convolution";
// Index of the operand that has the rows.
constexpr std::pair<absl::string_view, size_t> kProducts[] = {
    {"aten::mm", 0}, {"aten::bmm", 0}, {"aten::addmm", 1}, {"aten::baddbmm", 1}};

// Returns outputs times multiply-adds for each output; 0 for an operator without any.
int64_t MultiplyAddsOf(absl::string_view name, const std::vector<torch::Tensor>& inputs,
                       int64_t outputs) {
  if (name == kConvolution) return outputs * inputs[1][0].numel();
  for (const auto& [product, rows] : kProducts) {
    if (name == product) return outputs * inputs[rows].size(-1);
  }
  return 0;
}

// Returns an undefined tensor for other values, so that positions stay.
std::vector<torch::Tensor> TensorsOf(c10::ArrayRef<const c10::IValue> values) {
  std::vector<torch::Tensor> tensors;
  for (const c10::IValue& value : values) {
    tensors.push_back(value.isTensor() ? value.toTensor() : torch::Tensor());
  }
  return tensors;
}

// Assigns operators to layers: slices and transposes of a parameter share its storage.
class Counter {
 public:
  explicit Counter(const Model& model) {
    for (const auto& module : model.named_modules()) {
      const std::vector<torch::Tensor> own = module.value()->parameters(/*recurse=*/false);
      for (const torch::Tensor& parameter : own) owners_[StorageOf(parameter)] = all_.size();
      if (!own.empty()) all_.push_back({module.key(), own});
    }
  }

  void Add(const at::RecordFunction& function) {
    const std::vector<torch::Tensor> inputs = TensorsOf(function.inputs());
    for (const torch::Tensor& input : inputs) {
      if (input.defined()) Enter(input);
    }
    if (!under_way_.has_value() || function.outputs().empty() || !function.outputs()[0].isTensor())
      return;
    all_[*under_way_].multiply_adds +=
        MultiplyAddsOf(function.name(), inputs, function.outputs()[0].toTensor().numel());
  }

  std::vector<LayerCost> Take() {
    std::vector<LayerCost> layers;
    for (const size_t layer : order_) layers.push_back(std::move(all_[layer]));
    return layers;
  }

 private:
  static const void* StorageOf(const torch::Tensor& tensor) {
    return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
  }

  void Enter(const torch::Tensor& input) {
    const auto owner = owners_.find(StorageOf(input));
    if (owner == owners_.end()) return;
    under_way_ = owner->second;
    if (std::count(order_.begin(), order_.end(), owner->second) == 0) {
      order_.push_back(owner->second);
    }
  }

  std::vector<LayerCost> all_;
  std::map<const void*, size_t> owners_;  // in all_, by a parameter's storage
  absl::optional<size_t> under_way_;      // in all_; none before the first layer
  std::vector<size_t> order_;             // in all_
};

// torch's observers are functions without state.
thread_local Counter* counting = nullptr;

void OnOperator(const at::RecordFunction& function, at::ObserverContext*) {
  if (counting != nullptr) counting->Add(function);
}

// Counts the operators that this thread calls, as long as it exists.
class Observation {
 public:
  explicit Observation(Counter* counter) {
    counting = counter;
    const auto begin = [](const at::RecordFunction&) {
      return std::unique_ptr<at::ObserverContext>();
    };
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(begin, OnOperator)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  ~Observation() {
    at::removeCallback(handle_);
    counting = nullptr;
  }
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

 private:
  at::CallbackHandle handle_;
};

}  // namespace

std::vector<LayerCost> CountMultiplyAdds(Model* model, const torch::Tensor& input) {
  const torch::NoGradGuard values_only;
  const bool trains = model->is_training();
  Counter counter(*model);
  model->eval();
  {
    const Observation observation(&counter);
    model->forward(input);
  }
  model->train(trains);
  return counter.Take();
}

std::vector<double> ShareOut(double whole, const std::vector<LayerCost>& layers) {
  double all = 0;
  for (const LayerCost& layer : layers) all += static_cast<double>(layer.multiply_adds);
  std::vector<double> parts;
  for (const LayerCost& layer : layers) {
    const double share = all > 0 ? static_cast<double>(layer.multiply_adds) / all
                                 : 1 / static_cast<double>(layers.size());
    parts.push_back(whole * share);
  }
  return parts;
}

}  // namespace gradwire
