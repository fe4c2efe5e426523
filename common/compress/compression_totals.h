#ifndef GRADWIRE_COMMON_COMPRESS_COMPRESSION_TOTALS_H_
#define GRADWIRE_COMMON_COMPRESS_COMPRESSION_TOTALS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/base/ids.h"

namespace gradwire {

// Totals of compression for a worker's gradients so far; 0 without compression.
struct CompressionTotals {
  // Bytes of its ranks' terms and of the means that it received, in float32 and as payloads.
  uint64_t whole_bytes = 0;
  uint64_t coded_bytes = 0;
  // Sums of squares over the steps in which they are measured: of the terms, and of the accumulated
  // error.
  double gradient_square = 0;
  double residual_square = 0;

  CompressionTotals& operator+=(const CompressionTotals& more) {
    whole_bytes += more.whole_bytes;
    coded_bytes += more.coded_bytes;
    gradient_square += more.gradient_square;
    residual_square += more.residual_square;
    return *this;
  }
};

// Only every eighth step, because it takes another pass over gradients and residuals.
inline bool IsResidualMeasured(Step step) { return step.value() % 8 == 0; }

// Returns the sum of squares; 0 if it is not finite, so that one such step does not hide all later
// ones.
double SquareOf(absl::Span<const float> values);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_COMPRESS_COMPRESSION_TOTALS_H_
