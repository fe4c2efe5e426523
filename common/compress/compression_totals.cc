#include "common/compress/compression_totals.h"

#include <cmath>

#include "common/fold/kernels.h"

namespace gradwire {

double SquareOf(absl::Span<const float> values) {
  const float square = KernelsInUse().dot(values.data(), values.data(), values.size());
  return std::isfinite(square) ? square : 0;
}

}  // namespace gradwire
