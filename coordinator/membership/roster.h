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

// How many take part in a run.
struct RunSize {
  int world_size = 1;   // ranks
  int workers = 1;      // that carry them; at most `world_size`
  int aggregators = 0;  // separate ones
};

// Who was let in, and when each was heard last. Ranks are dealt anew whenever a worker comes
// or goes before the run begins, as if those still missing had no wish: so there is always a
// deal, and a worker's ranks are final only when all are there.
//
// Pure, like Membership. Pointers are good until that participant is removed.
class Roster {
 public:
  Roster(const RunSize& size, const LeaseLimits& lease, absl::Time start);

  const RunSize& size() const { return size_; }
  // "1 of 3 workers and 0 of 2 aggregators are there". Lost ones are not counted.
  std::string Count() const;
  bool HasAllWorkers() const;
  bool HasAllAggregators() const;
  // Ranks that none of those who are there carries.
  std::vector<Rank> FreeRanks() const;

  // Whether the ranks could still be dealt with a further worker of this wish; the error is
  // that of Assign.
  absl::Status CheckWish(const Wish& wish) const;
  // The worker's wish has passed CheckWish.
  void Add(Participant participant);
  // Its incarnation is not to be let in again.
  void Remove(Incarnation incarnation);
  // The same for a worker of a run that goes on: the others, of whom there is one or more, adopt
  // its ranks.
  void Evict(Incarnation incarnation);
  bool WasRemoved(Incarnation incarnation) const { return removed_.count(incarnation) > 0; }

  // Null if there is no such participant.
  Participant* Find(SessionId session);
  Participant* Find(Incarnation incarnation);
  const Participant* Find(Incarnation incarnation) const;
  // Workers by their lowest rank.
  std::vector<const Participant*> Workers() const;
  std::vector<Participant*> Workers();
  // Workers, who joined first first.
  std::vector<const Participant*> WorkersAsTheyJoined() const;
  // Workers by their lowest rank, then aggregators by their share.
  std::vector<const Participant*> All() const;
  std::vector<Participant*> All();

  // To be called each kTick. A long gap means that this process itself was
  // paused, not that all fell silent: leases are extended by it, and it is given; else zero.
  absl::Duration OnTick(absl::Time now);
  // How long this participant may be silent now.
  absl::Duration LeaseOf(const Participant& participant) const;
  // Those with a session, and not lost, that were not heard for longer than their leases.
  std::vector<Incarnation> Silent(absl::Time now) const;

 private:
  int WorkerCount() const;
  void Erase(Incarnation incarnation);
  int AggregatorCount() const;
  // Of those who are there, in order of joining, then of those still missing.
  std::vector<Wish> Wishes() const;
  void Deal();

  const RunSize size_;
  const LeaseLimits lease_;
  std::list<Participant> participants_;  // in order of joining
  std::set<Incarnation> removed_;
  absl::Time last_tick_;
  TickLag lag_;
};

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

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_ROSTER_H_
