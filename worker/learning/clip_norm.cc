#include "worker/learning/clip_norm.h"

namespace gradwire {

float ClipScale(const std::vector<torch::Tensor>& gradients, double max_norm) {
  const torch::NoGradGuard values_only;
  std::vector<torch::Tensor> norms;
  for (const torch::Tensor& gradient : gradients) norms.push_back(gradient.norm(2.0));
  const torch::Tensor norm = norms.size() == 1 ? norms.front() : torch::stack(norms).norm(2.0);
  return torch::clamp(max_norm / (norm + 1e-6), c10::nullopt, 1.0).item<float>();
}

torch::Tensor Scaled(const torch::Tensor& gradient, float scale) {
  const torch::NoGradGuard values_only;
  return scale == 1 ? gradient : gradient * scale;
}

}  // namespace gradwire
