#include "coordinator/membership/step_tally.h"

#include <algorithm>
#include <limits>

namespace gradwire {

StepTally::StepTally(int world_size) : ranks_(world_size) {
  for (int rank = 0; rank < world_size; ++rank) ranks_[rank].set_rank(rank);
}

void StepTally::Take(const v1::StepDone& done) {
  v1::RankStatus& rank = ranks_[done.rank()];
  rank.set_steps_done(std::max(rank.steps_done(), done.step() + 1));
  *rank.mutable_last_step() = done;
}

Step StepTally::FirstOpen(absl::Span<const Rank> ranks) const {
  uint64_t steps_done = std::numeric_limits<uint64_t>::max();
  for (Rank rank : ranks) steps_done = std::min(steps_done, Of(rank).steps_done());
  if (!ranks.empty()) return Step(steps_done);
  for (const v1::RankStatus& rank : ranks_) steps_done = std::min(steps_done, rank.steps_done());
  return Step(steps_done);
}

}  // namespace gradwire
