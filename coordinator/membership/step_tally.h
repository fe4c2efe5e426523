#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_STEP_TALLY_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_STEP_TALLY_H_

#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
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

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_STEP_TALLY_H_
