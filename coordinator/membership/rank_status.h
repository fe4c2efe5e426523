#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_RANK_STATUS_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_RANK_STATUS_H_

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/membership/roster.h"
#include "coordinator/membership/step_tally.h"
#include "gradwire/v1/status.pb.h"

namespace gradwire {

// What is told of each rank that somebody carries, in their order: how far it is, and who
// carries it. Without `now` it is not said how long that one has been silent.
std::vector<v1::RankStatus> RankStatuses(const Roster& roster, const StepTally& steps,
                                         std::optional<absl::Time> now);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_RANK_STATUS_H_
