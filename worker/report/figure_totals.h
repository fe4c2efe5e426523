#ifndef GRADWIRE_WORKER_REPORT_FIGURE_TOTALS_H_
#define GRADWIRE_WORKER_REPORT_FIGURE_TOTALS_H_

#include <array>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>

#include "common/telemetry/step_record.h"

namespace gradwire {

// What the steps of a rank come to, in each figure of kStepFigures that is in summaries. Not
// thread-safe.
class FigureTotals {
 public:
  // The next step.
  void Add(const StepRecord& record);

  // The figures at the places that their rows give, nested as these are. A mean and a maximum are
  // {"mean", "max"}. See StepFigure for steps without a value.
  nlohmann::ordered_json ToJson() const;

 private:
  struct Total {
    int64_t steps = 0;  // that have a value
    FigureValue sum = int64_t{0};
    FigureValue max = int64_t{0};
    FigureValue last = int64_t{0};
  };
  std::array<Total, std::size(kStepFigures)> totals_;  // by row
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_REPORT_FIGURE_TOTALS_H_
