#include "worker/learning/finite.h"

#include <cstdint>
#include <cstring>

namespace gradwire {

// Those have all bits of the exponent set. Without branches, so that it is as fast as the memory.
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

}  // namespace gradwire
