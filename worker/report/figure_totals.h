#ifndef GRADWIRE_WORKER_REPORT_FIGURE_TOTALS_H_
#define GRADWIRE_WORKER_REPORT_FIGURE_TOTALS_H_

#include <array>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>

#include "common/telemetry/step_record.h"

namespace gradwire {

// Totals of a rank's steps for each figure of kStepFigures in summaries. Not thread-safe.
class FigureTotals {
 public:
  // Adds the next step.
  void Add(const StepRecord& record);

  // Returns the figures, nested at the places in their rows. A mean and a maximum are {"mean",
  // "max"}. See StepFigure for steps without a value.
  nlohmann::ordered_json ToJson() const;

 private:
  struct Total {
    int64_t steps = 0;  // with a value
    FigureValue sum = int64_t{0};
    FigureValue max = int64_t{0};
    FigureValue last = int64_t{0};
  };
  std::array<Total, std::size(kStepFigures)> totals_;  // by row
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_REPORT_FIGURE_TOTALS_H_
