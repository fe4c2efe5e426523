#include "worker/report/phase_seconds.h"

namespace gradwire {

PhaseSeconds ToPhaseSeconds(const PhaseTimes& times) {
  PhaseSeconds seconds;
  seconds.data = absl::ToDoubleSeconds(times.data);
  seconds.forward = absl::ToDoubleSeconds(times.forward);
  seconds.backward = absl::ToDoubleSeconds(times.backward);
  seconds.communication = absl::ToDoubleSeconds(times.communication);
  seconds.exposed_communication = absl::ToDoubleSeconds(times.exposed_communication);
  seconds.optimizer = absl::ToDoubleSeconds(times.optimizer);
  return seconds;
}

nlohmann::ordered_json PhaseJson(const PhaseSeconds& phases) {
  return {{"data", phases.data},
          {"forward", phases.forward},
          {"backward", phases.backward},
          {"communication", phases.communication},
          {"exposed_communication", phases.exposed_communication},
          {"optimizer", phases.optimizer}};
}

}  // namespace gradwire
