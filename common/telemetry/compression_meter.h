#ifndef GRADWIRE_COMMON_TELEMETRY_COMPRESSION_METER_H_
#define GRADWIRE_COMMON_TELEMETRY_COMPRESSION_METER_H_

#include "absl/types/optional.h"
#include "common/compress/compression_totals.h"
#include "common/telemetry/step_record.h"

namespace gradwire {

// What is told of compression, out of a worker's totals. Not thread-safe.
class CompressionMeter {
 public:
  // `totals` are up to the end of a step. None if nothing was compressed in it. The residual is
  // that of the step in which it was measured last.
  absl::optional<StepRecord::Compressed> OnStep(const CompressionTotals& totals);

 private:
  CompressionTotals counted_;
  absl::optional<double> residual_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_COMPRESSION_METER_H_
