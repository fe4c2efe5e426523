#include "worker/learning/clip_norm.h"

#include <cstdint>
#include <cstring>

namespace gradwire {

// Infinity and NaN have all bits of the exponent set. Without branches, so that it is as fast as
// the memory.
bool AllFinite(const torch::Tensor& floats) {
  constexpr uint32_t kExponent = 0x7f800000;
  const auto* const elements = floats.data_ptr<float>();
  uint32_t found = 0;
  for (int64_t i = 0; i < floats.numel(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, &elements[i], sizeof(bits));
    found |= static_cast<uint32_t>((bits & kExponent) == kExponent);
  }
  return found == 0;
}

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
