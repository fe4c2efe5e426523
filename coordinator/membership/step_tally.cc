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
  rank.set_loss(done.loss());
  rank.set_iteration_seconds(done.iteration_seconds());
  rank.set_communication_seconds(done.communication_seconds());
  rank.set_exposed_communication_seconds(done.exposed_communication_seconds());
}

Step StepTally::FirstOpen(absl::Span<const Rank> ranks) const {
  uint64_t steps_done = std::numeric_limits<uint64_t>::max();
  for (Rank rank : ranks) steps_done = std::min(steps_done, Of(rank).steps_done());
  if (!ranks.empty()) return Step(steps_done);
  for (const v1::RankStatus& rank : ranks_) steps_done = std::min(steps_done, rank.steps_done());
  return Step(steps_done);
}

}  // namespace gradwire
