#include "coordinator/membership/rank_status.h"

#include <algorithm>

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
