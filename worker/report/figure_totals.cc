#include "worker/report/figure_totals.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

FigureValue Greater(const FigureValue& a, const FigureValue& b) {
  return NumberOf<double>(b) > NumberOf<double>(a) ? b : a;
}

}  // namespace

void FigureTotals::Add(const StepRecord& record) {
  for (size_t i = 0; i < totals_.size(); ++i) {
    if (kStepFigures[i].in_summary == StepFigure::InSummary::kNot) continue;
    const absl::optional<FigureValue> value = kStepFigures[i].get(record);
    if (!value.has_value()) continue;
    Total& total = totals_[i];
    total.sum = Sum(total.sum, *value);
    total.max = total.steps == 0 ? *value : Greater(total.max, *value);
    total.last = *value;
    ++total.steps;
  }
}

Json FigureTotals::ToJson() const {
  Json json = Json::object();
  for (size_t i = 0; i < totals_.size(); ++i) {
    const StepFigure& figure = kStepFigures[i];
    const Total& total = totals_[i];
    const bool summed = figure.in_summary == StepFigure::InSummary::kSum;
    if (figure.in_summary == StepFigure::InSummary::kNot || (!summed && total.steps == 0)) continue;
    Json& place = json[Json::json_pointer(figure.summary_place)];
    if (summed) {
      place = FigureJson(total.sum);
    } else if (figure.in_summary == StepFigure::InSummary::kLast) {
      place = FigureJson(total.last);
    } else {
      const double mean = NumberOf<double>(total.sum) / static_cast<double>(total.steps);
      place = {{"mean", mean}, {"max", FigureJson(total.max)}};
    }
  }
  return json;
}

}  // namespace gradwire
