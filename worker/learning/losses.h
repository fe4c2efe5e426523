#ifndef GRADWIRE_WORKER_LEARNING_LOSSES_H_
#define GRADWIRE_WORKER_LEARNING_LOSSES_H_

#include <torch/torch.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// A loss function: returns a scalar, the mean over the samples, or their sum. `scores`: (N,
// classes), float32; `labels`: (N), int64.
using Loss = torch::Tensor (*)(const torch::Tensor& scores, const torch::Tensor& labels, bool sum);

// Each row of losses.inc.
#define GRADWIRE_LOSS(name, function, help) \
  torch::Tensor function(const torch::Tensor& scores, const torch::Tensor& labels, bool sum);
#include "worker/options/losses.inc"
#undef GRADWIRE_LOSS

// Returns the loss `name`. NotFound lists the names.
absl::StatusOr<Loss> FindLoss(absl::string_view name);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_LEARNING_LOSSES_H_
