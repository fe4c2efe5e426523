#include "common/telemetry/figure_series.h"

#include <cmath>

#include "absl/strings/str_cat.h"

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

namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::Labels;

bool IsShown(const StepFigure& figure, FigureSeries::Of of) {
  return of == FigureSeries::Of::kWorker
             ? figure.series != StepFigure::Series::kNone
             : figure.at_coordinator != StepFigure::AtCoordinator::kNone;
}

}  // namespace

Labels RankLabel(Rank rank) { return {{"rank", absl::StrCat(rank.value())}}; }

FigureSeries::FigureSeries(prometheus::Registry* registry, Of of) : of_(of) {
  for (const StepFigure& figure : kStepFigures) {
    if (!IsShown(figure, of)) continue;
    Row row = {&figure, nullptr, nullptr};
    const char* const name = figure.series_name;
    if (figure.series == StepFigure::Series::kCounter) {
      row.counters = &BuildCounter().Name(name).Help(figure.series_help).Register(*registry);
    } else {
      row.gauges = &BuildGauge().Name(name).Help(figure.series_help).Register(*registry);
    }
    rows_.push_back(row);
    if (!figure.optional && !IsOfRank(figure)) Add(row, int64_t{0}, {});
  }
}

void FigureSeries::Observe(const StepRecord& record) const {
  for (const Row& row : rows_) {
    const absl::optional<FigureValue> value = row.figure->get(record);
    if (!value.has_value()) continue;
    Add(row, *value, IsOfRank(*row.figure) ? RankLabel(record.rank) : Labels());
  }
}

bool FigureSeries::IsOfRank(const StepFigure& figure) const {
  return of_ == Of::kCoordinator && figure.at_coordinator == StepFigure::AtCoordinator::kOfRank;
}

void FigureSeries::Add(const Row& row, const FigureValue& value, const Labels& labels) {
  const double number = NumberOf<double>(value);
  if (row.counters != nullptr) row.counters->Add(labels).Increment(number);
  if (row.gauges != nullptr) row.gauges->Add(labels).Set(number);
}

}  // namespace gradwire
