#include "coordinator/membership/step_tally.h"

#include <algorithm>
#include <limits>

namespace gradwire {
namespace {

v1::RankStatus StatusOf(const Participant& worker, const v1::RankStatus& progress,
                        std::optional<absl::Time> now) {
  static constexpr const char* kNames[] = {"running", "finished", "lost"};
  v1::RankStatus status = progress;
  status.set_address(worker.address);
  status.set_metrics(worker.metrics);
  status.set_pid(worker.pid);
  // Whose session lives may come back.
  const bool is_awaited = worker.standing == Standing::kLost && worker.session.has_value();
  status.set_state(is_awaited ? "silent" : kNames[static_cast<int>(worker.standing)]);
  if (worker.session && now) {
    status.set_silent_seconds(absl::ToDoubleSeconds(*now - worker.last_heard));
  }
  return status;
}

}  // namespace

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

std::vector<v1::RankStatus> RankStatuses(const Roster& roster, const StepTally& steps,
                                         std::optional<absl::Time> now) {
  std::vector<v1::RankStatus> statuses;
  for (const Participant* worker : roster.Workers()) {
    for (Rank rank : worker->ranks) statuses.push_back(StatusOf(*worker, steps.Of(rank), now));
  }
  std::sort(statuses.begin(), statuses.end(),
            [](const v1::RankStatus& a, const v1::RankStatus& b) { return a.rank() < b.rank(); });
  return statuses;
}

}  // namespace gradwire
