#include "common/telemetry/compression_meter.h"

#include <cmath>

namespace gradwire {

absl::optional<StepRecord::Compressed> CompressionMeter::OnStep(const CompressionTotals& totals) {
  const CompressionTotals before = counted_;
  counted_ = totals;
  if (totals.coded_bytes == before.coded_bytes) return absl::nullopt;
  const double gradient = totals.gradient_square - before.gradient_square;
  const double residual = totals.residual_square - before.residual_square;
  if (gradient > 0) residual_ = std::sqrt(residual / gradient);
  const double whole = static_cast<double>(totals.whole_bytes - before.whole_bytes);
  const double coded = static_cast<double>(totals.coded_bytes - before.coded_bytes);
  return StepRecord::Compressed{whole / coded, residual_};
}

}  // namespace gradwire
