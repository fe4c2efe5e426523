#include "worker/ddp/sliced_sgd.h"

#include <algorithm>

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

}  // namespace gradwire
