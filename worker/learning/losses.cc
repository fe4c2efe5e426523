#include "worker/learning/losses.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace gradwire {

torch::Tensor CrossEntropy(const torch::Tensor& scores, const torch::Tensor& labels, bool sum) {
  torch::nn::functional::CrossEntropyFuncOptions options;
  if (sum) options.reduction(torch::kSum);
  return torch::nn::functional::cross_entropy(scores, labels, options);
}

torch::Tensor MeanSquaredError(const torch::Tensor& scores, const torch::Tensor& labels, bool sum) {
  const int64_t classes = scores.size(1);
  const torch::Tensor one_hot = torch::one_hot(labels, classes).to(scores.scalar_type());
  if (!sum) return torch::mse_loss(scores, one_hot);
  return torch::mse_loss(scores, one_hot, at::Reduction::Sum) / classes;
}

absl::StatusOr<Loss> FindLoss(absl::string_view name) {
#define GRADWIRE_LOSS(row_name, function, help) \
  if (name == row_name) return &function;
#include "worker/options/losses.inc"
#undef GRADWIRE_LOSS
  std::string names;
#define GRADWIRE_LOSS(row_name, ...) absl::StrAppend(&names, " ", row_name);
#include "worker/options/losses.inc"
#undef GRADWIRE_LOSS
  return absl::NotFoundError(
      absl::StrCat("loss '", name, "' does not exist; expected one of:", names));
}

}  // namespace gradwire
