#include "worker/learning/sliced_optimizer.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gradwire {
namespace {

// "1 Long, 70001 Float"
std::string Describe(const std::vector<torch::Tensor>& state) {
  return absl::StrJoin(state, ", ", [](std::string* out, const torch::Tensor& tensor) {
    absl::StrAppend(out, tensor.numel(), " ", c10::toString(tensor.scalar_type()));
  });
}

}  // namespace

SlicedOptimizer::SlicedOptimizer(absl::Span<const torch::Tensor> parameters, OptimizerKind kind)
    : kind_(std::move(kind)),
      update_(kind_.kernel != nullptr ? MakeFusedUpdate(parameters, kind_)
                                      : MakeTorchUpdate(parameters, kind_)) {
  for (const torch::Tensor& parameter : parameters) elements_ += parameter.numel();
}

void SlicedOptimizer::Step(const torch::Tensor& gradient, double learning_rate) {
  update_->Step(gradient, learning_rate);
}

void SlicedOptimizer::Save() { update_->Save(); }

void SlicedOptimizer::Undo() { update_->Undo(); }

std::vector<torch::Tensor> SlicedOptimizer::State() const { return update_->State(); }

absl::Status SlicedOptimizer::CheckState(const std::vector<torch::Tensor>& state) const {
  std::vector<std::string> tensors;
  for (const int64_t dimension : kind_.dimensions) {
    tensors.push_back(dimension == 0 ? "1 Long" : absl::StrCat(elements_, " Float"));
  }
  const std::string got = Describe(state), expected = absl::StrJoin(tensors, ", ");
  if (got == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("state of an optimizer: got [", got, "], expected [", expected, "]"));
}

absl::Status SlicedOptimizer::SetState(const std::vector<torch::Tensor>& state) {
  if (!state.empty()) {
    if (absl::Status fits = CheckState(state); !fits.ok()) return fits;
  }
  update_->SetState(state);
  return absl::OkStatus();
}

}  // namespace gradwire
