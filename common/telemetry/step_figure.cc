#include "common/telemetry/step_figure.h"

namespace gradwire {

FigureValue Sum(const FigureValue& a, const FigureValue& b) {
  if (std::holds_alternative<double>(a) || std::holds_alternative<double>(b)) {
    return NumberOf<double>(a) + NumberOf<double>(b);
  }
  return NumberOf<int64_t>(a) + NumberOf<int64_t>(b);
}

nlohmann::ordered_json FigureJson(const FigureValue& value) {
  if (const PhaseTimes* const phases = std::get_if<PhaseTimes>(&value)) {
    return PhaseJson(ToSeconds(*phases));
  }
  return std::visit(
      [](const auto& held) -> nlohmann::ordered_json {
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(held)>>) return held;
        return nullptr;
      },
      value);
}

}  // namespace gradwire
