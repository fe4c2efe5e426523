#ifndef GRADWIRE_COMMON_TELEMETRY_PHASE_TIMES_H_
#define GRADWIRE_COMMON_TELEMETRY_PHASE_TIMES_H_

#include "absl/time/time.h"

namespace gradwire {

// Where the wall time of one iteration went. Phases may overlap, so they need
// not add up to `iteration`:
//
//   data ── forward ── backward ──────────── wait ── optimizer
//                          └── communication ──┘
//                                        └─────┘ exposed_communication
//
// A step's last communication and optimizer may lie within the next one's
// forward pass. They count for their step alone.
struct PhaseTimes {
  absl::Duration data;                   // waiting for the batch
  absl::Duration forward;                // model and loss
  absl::Duration backward;               // gradients
  absl::Duration communication;          // some transfer of this step is under way
  absl::Duration exposed_communication;  // the part of it in which nothing else is done
  absl::Duration optimizer;              // update of the parameters
  absl::Duration iteration;              // from the end of the last iteration to the end of this
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_PHASE_TIMES_H_
