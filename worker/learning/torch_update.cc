#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/base/stream_copy.h"
#include "worker/learning/optimizer_key.h"
#include "worker/learning/update.h"

namespace gradwire {
namespace {

// A slice of parameter, gradient, momentum and a temporary are 512 KiB. It is also the least work
// for which torch uses another thread.
constexpr int64_t kElementsPerThread = 32768;

std::vector<torch::Tensor> SlicesOf(absl::Span<const torch::Tensor> parameters) {
  const int64_t most = kElementsPerThread * at::get_num_threads();
  std::vector<torch::Tensor> slices;
  for (const torch::Tensor& parameter : parameters) {
    const torch::Tensor flat = parameter.detach().view({-1});
    for (int64_t first = 0; first < flat.numel(); first += most) {
      slices.push_back(flat.narrow(0, first, std::min(most, flat.numel() - first)));
    }
  }
  return slices;
}

// Bypasses the caches, which hold the optimizer's next data: a saved copy is rarely read.
void CopyPastCaches(const torch::Tensor& from, const torch::Tensor& to) {
  StreamCopy(from.data_ptr(), from.nbytes(), to.data_ptr());
  StreamFence();
}

// Copies `from` to `to`, which is empty or has equal shapes; one thread, byte by byte.
void CopyInto(const std::vector<torch::Tensor>& from, std::vector<torch::Tensor>* to) {
  const bool is_new = to->size() != from.size();
  if (is_new) to->clear();
  for (size_t i = 0; i < from.size(); ++i) {
    if (is_new) to->push_back(torch::empty_like(from[i]));
    CopyPastCaches(from[i], (*to)[i]);
  }
}

class TorchUpdate : public Update {
 public:
  TorchUpdate(absl::Span<const torch::Tensor> parameters, const OptimizerKind& kind)
      : kind_(kind), slices_(SlicesOf(parameters)), optimizer_(kind_.make(slices_)) {}

  void Step(const torch::Tensor& gradient, double learning_rate) override;
  void Save() override;
  void Undo() override;
  std::vector<torch::Tensor> State() const override;
  void SetState(const std::vector<torch::Tensor>& state) override;

 private:
  // Returns the optimizer's state of each slice; empty while there is none.
  std::vector<std::vector<torch::Tensor>> StateOfSlices() const;

  const OptimizerKind kind_;
  std::vector<torch::Tensor> slices_;                    // share the parameters' memory
  std::unique_ptr<torch::optim::Optimizer> optimizer_;   // of the slices
  std::vector<torch::Tensor> saved_parameters_;          // by slice
  std::vector<std::vector<torch::Tensor>> saved_state_;  // by slice; empty: there was none
};

void TorchUpdate::Step(const torch::Tensor& gradient, double learning_rate) {
  int64_t first = 0;
  for (torch::Tensor& slice : slices_) {
    slice.mutable_grad() = gradient.narrow(0, first, slice.numel());
    first += slice.numel();
  }
  for (auto& group : optimizer_->param_groups()) group.options().set_lr(learning_rate);
  optimizer_->step();
}

void TorchUpdate::Save() {
  CopyInto(slices_, &saved_parameters_);
  const auto state = StateOfSlices();
  saved_state_.resize(state.size());
  for (size_t i = 0; i < state.size(); ++i) CopyInto(state[i], &saved_state_[i]);
}

void TorchUpdate::Undo() {
  CopyInto(saved_parameters_, &slices_);
  auto& states = optimizer_->state();
  if (saved_state_.empty()) return states.clear();
  for (size_t i = 0; i < slices_.size(); ++i) {
    std::vector<torch::Tensor> tensors;
    for (const torch::Tensor& saved : saved_state_[i]) tensors.push_back(saved.clone());
    states[OptimizerKeyOf(states, slices_[i])] = kind_.state_of(tensors);
  }
}

std::vector<std::vector<torch::Tensor>> TorchUpdate::StateOfSlices() const {
  const auto& states = std::as_const(*optimizer_).state();
  std::vector<std::vector<torch::Tensor>> of_slices;
  for (const torch::Tensor& slice : slices_) {
    const auto found = states.find(OptimizerKeyOf(states, slice));
    if (found == states.end()) return {};
    of_slices.push_back(kind_.tensors_of(*found->second));
    if (of_slices.back().empty()) return {};
  }
  return of_slices;
}

std::vector<torch::Tensor> TorchUpdate::State() const {
  std::vector<std::vector<torch::Tensor>> parts(kind_.dimensions.size());  // of each slice
  const auto of_slices = StateOfSlices();
  if (of_slices.empty()) return {};
  for (const std::vector<torch::Tensor>& tensors : of_slices) {
    for (size_t i = 0; i < parts.size(); ++i) parts[i].push_back(tensors[i]);
  }
  std::vector<torch::Tensor> state;
  for (size_t i = 0; i < parts.size(); ++i) {
    state.push_back(kind_.dimensions[i] == 0 ? parts[i].front() : torch::cat(parts[i]));
  }
  return state;
}

void TorchUpdate::SetState(const std::vector<torch::Tensor>& state) {
  auto& states = optimizer_->state();
  if (state.empty()) return states.clear();
  int64_t first = 0;
  for (const torch::Tensor& slice : slices_) {
    std::vector<torch::Tensor> tensors;
    for (const torch::Tensor& whole : state) {
      const bool shared = kind_.dimensions[tensors.size()] == 0;
      tensors.push_back(shared ? whole : whole.narrow(0, first, slice.numel()).clone());
    }
    states[OptimizerKeyOf(states, slice)] = kind_.state_of(tensors);
    first += slice.numel();
  }
}

}  // namespace

std::unique_ptr<Update> MakeTorchUpdate(absl::Span<const torch::Tensor> parameters,
                                        const OptimizerKind& kind) {
  return std::make_unique<TorchUpdate>(parameters, kind);
}

}  // namespace gradwire
