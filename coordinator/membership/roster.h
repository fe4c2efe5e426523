#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_ROSTER_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_ROSTER_H_

#include <list>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "coordinator/membership/participant.h"
#include "gradwire/v1/membership.pb.h"
#include "gradwire/v1/status.pb.h"

namespace gradwire {

// The size of a run.
struct RunSize {
  int world_size = 1;   // ranks
  int workers = 1;      // processes that carry them; at most `world_size`
  int aggregators = 0;  // separate ones
};

// The members, and when each was last heard. Ranks are dealt again whenever a worker joins or
// leaves before the run begins, as if missing workers had no wish. So a deal always exists, and a
// worker's ranks are final when all workers have joined. The ranks of a host are consecutive, as
// far as wishes allow: hosts get theirs in the order in which their first workers joined.
//
// Pure, like Membership. A pointer is valid until its participant is removed.
class Roster {
 public:
  Roster(const RunSize& size, const LeaseLimits& lease, absl::Time start);

  const RunSize& size() const { return size_; }
  // Returns "1 of 3 workers and 0 of 2 aggregators are present". Lost ones are not counted.
  std::string Count() const;
  bool HasAllWorkers() const;
  bool HasAllAggregators() const;
  // Returns the ranks that no member carries.
  std::vector<Rank> FreeRanks() const;

  // Checks that ranks could still be dealt if another worker with this wish joined. Errors: as
  // for Assign.
  absl::Status CheckWish(const Wish& wish) const;
  // The worker's wish must have passed CheckWish.
  void Add(Participant participant);
  // Its incarnation cannot join again.
  void Remove(Incarnation incarnation);
  // The same for a worker of a run that continues: the others, at least one, adopt its ranks.
  void Evict(Incarnation incarnation);
  bool WasRemoved(Incarnation incarnation) const { return removed_.count(incarnation) > 0; }

  // Returns null if no such participant exists.
  Participant* Find(SessionId session);
  Participant* Find(Incarnation incarnation);
  const Participant* Find(Incarnation incarnation) const;
  // Returns the workers by lowest rank.
  std::vector<const Participant*> Workers() const;
  std::vector<Participant*> Workers();
  // Returns the workers in order of joining.
  std::vector<const Participant*> WorkersAsTheyJoined() const;
  // Returns "rank 0 is 10.10.1.2:4711, ranks 1, 2 are 10.10.1.3:4711" for the workers without a
  // wish.
  std::string DealtRanks() const;
  // Returns the workers by lowest rank, then the aggregators by share.
  std::vector<const Participant*> All() const;
  std::vector<Participant*> All();

  // Must be called every kTick. A long gap means that this process itself was paused, not that all
  // members fell silent: leases are extended by it, and it is returned; otherwise zero.
  absl::Duration OnTick(absl::Time now);
  // Returns how long this participant may be silent now.
  absl::Duration LeaseOf(const Participant& participant) const;
  // Returns members with a session, and not lost, that have been silent for longer than their
  // leases.
  std::vector<Incarnation> Silent(absl::Time now) const;

 private:
  int WorkerCount() const;
  void Erase(Incarnation incarnation);
  int AggregatorCount() const;
  // Returns the wishes of the workers by host, then of the missing workers.
  std::vector<Wish> Wishes() const;
  void Deal();

  const RunSize size_;
  const LeaseLimits lease_;
  std::list<Participant> participants_;  // in order of joining
  std::set<Incarnation> removed_;
  absl::Time last_tick_;
  TickLag lag_;
};

// The progress of each rank. Pure.
class StepTally {
 public:
  // The run begins with step `first`.
  explicit StepTally(int world_size, Step first = Step(0));

  // `done.rank` must be below the world size.
  void Take(const v1::StepDone& done);
  // These ranks have done the steps before `open`, although their lost worker may not have reported
  // all of them.
  void Complete(absl::Span<const Rank> ranks, Step open);
  // Returns the first step that not all of `ranks` have done; with no ranks, that not all ranks
  // have.
  Step FirstOpen(absl::Span<const Rank> ranks = {}) const;
  // Returns rank, steps done, and the report of the last one.
  const v1::RankStatus& Of(Rank rank) const { return ranks_[rank.value()]; }

 private:
  std::vector<v1::RankStatus> ranks_;
};

// Returns the status of each carried rank, in order of ranks: its progress and its worker. Without
// `now`, the silence of the worker is left out.
std::vector<v1::RankStatus> RankStatuses(const Roster& roster, const StepTally& steps,
                                         std::optional<absl::Time> now);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_ROSTER_H_
