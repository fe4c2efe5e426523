#include "worker/ddp/sliced_sgd.h"

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

// A slice of parameter, gradient, momentum and a temporary are 512 KiB. It is also
// the least that torch gives a thread of its own.
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

// A key of SGD's state: older versions of torch name a tensor by a string, newer by its address.
template <typename Map>
typename Map::key_type KeyOf(const torch::Tensor& slice) {
  if constexpr (std::is_same_v<typename Map::key_type, std::string>) {
    return c10::guts::to_string(slice.unsafeGetTensorImpl());
  } else {
    return slice.unsafeGetTensorImpl();
  }
}

int64_t ElementsOf(const std::vector<torch::Tensor>& slices) {
  int64_t elements = 0;
  for (const torch::Tensor& slice : slices) elements += slice.numel();
  return elements;
}

}  // namespace

SlicedSgd::SlicedSgd(absl::Span<const torch::Tensor> parameters,
                     const torch::optim::SGDOptions& options)
    : slices_(SlicesOf(parameters)), sgd_(slices_, options) {}

void SlicedSgd::Step(const torch::Tensor& gradient) {
  int64_t first = 0;
  for (torch::Tensor& slice : slices_) {
    slice.mutable_grad() = gradient.narrow(0, first, slice.numel());
    first += slice.numel();
  }
  sgd_.step();
}

std::vector<torch::Tensor> SlicedSgd::State() const {
  const auto& states = sgd_.state();
  std::vector<torch::Tensor> momentum;
  for (const torch::Tensor& slice : slices_) {
    const auto found = states.find(KeyOf<std::decay_t<decltype(states)>>(slice));
    if (found == states.end()) return {};
    const auto& state = static_cast<const torch::optim::SGDParamState&>(*found->second);
    if (!state.momentum_buffer().defined()) return {};
    momentum.push_back(state.momentum_buffer());
  }
  return {torch::cat(momentum)};
}

absl::Status SlicedSgd::SetState(const std::vector<torch::Tensor>& state) {
  auto& states = sgd_.state();
  if (state.empty()) {
    states.clear();
    return absl::OkStatus();
  }
  if (state.size() != 1 || state[0].numel() != ElementsOf(slices_) ||
      state[0].scalar_type() != torch::kFloat) {
    return absl::InvalidArgumentError(
        absl::StrCat("state of SGD: got ", state.size(), " tensors, the first of ",
                     state[0].numel(), " ", c10::toString(state[0].scalar_type()),
                     ", expected one of ", ElementsOf(slices_), " Float"));
  }
  int64_t first = 0;
  for (const torch::Tensor& slice : slices_) {
    auto of_slice = std::make_unique<torch::optim::SGDParamState>();
    of_slice->momentum_buffer(state[0].narrow(0, first, slice.numel()).clone());
    states[KeyOf<std::decay_t<decltype(states)>>(slice)] = std::move(of_slice);
    first += slice.numel();
  }
  return absl::OkStatus();
}

}  // namespace gradwire
