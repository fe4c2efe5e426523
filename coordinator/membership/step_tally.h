#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_STEP_TALLY_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_STEP_TALLY_H_

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "coordinator/membership/roster.h"
#include "gradwire/v1/membership.pb.h"
#include "gradwire/v1/status.pb.h"

namespace gradwire {

// How far each rank is. Pure.
class StepTally {
 public:
  explicit StepTally(int world_size);

  // `done.rank` is below the world size.
  void Take(const v1::StepDone& done);
  // The first step that not all of `ranks` have done; of no ranks: that not all have.
  Step FirstOpen(absl::Span<const Rank> ranks = {}) const;
  // Rank, steps done, and what was told of the last one.
  const v1::RankStatus& Of(Rank rank) const { return ranks_[rank.value()]; }

 private:
  std::vector<v1::RankStatus> ranks_;
};

// What is told of each rank that somebody carries, in their order: how far it is, and who
// carries it. Without `now` it is not said how long that one has been silent.
std::vector<v1::RankStatus> RankStatuses(const Roster& roster, const StepTally& steps,
                                         std::optional<absl::Time> now);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_STEP_TALLY_H_
