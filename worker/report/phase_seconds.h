#ifndef GRADWIRE_WORKER_REPORT_PHASE_SECONDS_H_
#define GRADWIRE_WORKER_REPORT_PHASE_SECONDS_H_

#include <nlohmann/json.hpp>

#include "common/telemetry/phase_times.h"

namespace gradwire {

// The phases of PhaseTimes in seconds, as reports and summaries give them.
struct PhaseSeconds {
  double data = 0;
  double forward = 0;
  double backward = 0;
  double communication = 0;
  double exposed_communication = 0;
  double optimizer = 0;
};

PhaseSeconds ToPhaseSeconds(const PhaseTimes& times);

// {"data": …, "forward": …, …}, in this order; what is not finite becomes null.
nlohmann::ordered_json PhaseJson(const PhaseSeconds& phases);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_REPORT_PHASE_SECONDS_H_
