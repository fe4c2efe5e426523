#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_REPLICAS_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_REPLICAS_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "coordinator/membership/participant.h"

namespace gradwire {

// How the parameters of workers differ that should be equal.
struct ReplicaDifference {
  size_t tensor = 0;  // the first that does: its index in the layout
  // Who differs from more than half of all workers; empty if no half and more have the same.
  std::vector<Incarnation> minority;
};

// Compares what the workers said with the Ready for one step; none if all said the same. Pure.
std::optional<ReplicaDifference> CompareReplicas(const std::vector<Participant*>& workers);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_REPLICAS_H_
