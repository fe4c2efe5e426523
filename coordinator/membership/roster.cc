#include "coordinator/membership/roster.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/address.h"
#include "common/wire/view.h"

namespace gradwire {

namespace {

auto OrderOf(const Participant& participant) {
  return std::make_tuple(participant.share.value_or(-1),
                         participant.ranks.empty() ? Rank(-1) : participant.ranks.front());
}

template <typename Pointer, typename List>
std::vector<Pointer> InOrder(List* list) {
  std::vector<Pointer> pointers;
  for (auto& participant : *list) pointers.push_back(&participant);
  std::sort(pointers.begin(), pointers.end(),
            [](Pointer a, Pointer b) { return OrderOf(*a) < OrderOf(*b); });
  return pointers;
}

// Returns the workers by host: hosts by their first worker that joined, the workers of each as they
// joined. `list` is in the order of joining.
template <typename Pointer, typename List>
std::vector<Pointer> WorkersByHost(List* list) {
  std::map<absl::string_view, size_t> numbers;  // of hosts
  std::vector<std::vector<Pointer>> hosts;
  for (auto& participant : *list) {
    if (participant.share) continue;
    const size_t host =
        numbers.try_emplace(WithoutPort(participant.address), hosts.size()).first->second;
    if (host == hosts.size()) hosts.emplace_back();
    hosts[host].push_back(&participant);
  }
  std::vector<Pointer> workers;
  for (const auto& host : hosts) workers.insert(workers.end(), host.begin(), host.end());
  return workers;
}

}  // namespace

Roster::Roster(const RunSize& size, const LeaseLimits& lease, absl::Time start)
    : size_(size), lease_(lease), last_tick_(start) {}

std::string Roster::Count() const {
  int workers = 0;
  int aggregators = 0;
  for (const Participant& participant : participants_) {
    if (participant.standing == Standing::kLost) continue;
    ++(participant.share ? aggregators : workers);
  }
  std::string count = absl::StrCat(workers, " of ", size_.workers, " workers");
  if (size_.aggregators > 0) {
    absl::StrAppend(&count, " and ", aggregators, " of ", size_.aggregators, " aggregators");
  }
  return absl::StrCat(count, " are present");
}

bool Roster::HasAllWorkers() const { return WorkerCount() == size_.workers; }

bool Roster::HasAllAggregators() const { return AggregatorCount() == size_.aggregators; }

int Roster::AggregatorCount() const {
  return static_cast<int>(
      std::count_if(participants_.begin(), participants_.end(),
                    [](const Participant& participant) { return participant.share.has_value(); }));
}

int Roster::WorkerCount() const {
  return static_cast<int>(participants_.size()) - AggregatorCount();
}

std::vector<Rank> Roster::FreeRanks() const {
  std::set<Rank> carried;
  for (const Participant& worker : participants_) {
    carried.insert(worker.ranks.begin(), worker.ranks.end());
  }
  std::vector<Rank> free;
  for (Rank rank(0); rank.value() < size_.world_size; ++rank) {
    if (carried.count(rank) == 0) free.push_back(rank);
  }
  return free;
}

std::vector<Wish> Roster::Wishes() const {
  std::vector<Wish> wishes;
  for (const Participant* worker : WorkersByHost<const Participant*>(&participants_)) {
    wishes.push_back(worker->wish);
  }
  wishes.resize(size_.workers);
  return wishes;
}

absl::Status Roster::CheckWish(const Wish& wish) const {
  std::vector<Wish> wishes = Wishes();
  wishes[WorkerCount()] = wish;
  return Assign(wishes, size_.world_size).status();
}

void Roster::Add(Participant participant) {
  participants_.push_back(std::move(participant));
  Deal();
}

void Roster::Erase(Incarnation incarnation) {
  participants_.remove_if([incarnation](const Participant& participant) {
    return participant.incarnation == incarnation;
  });
  removed_.insert(incarnation);
}

void Roster::Remove(Incarnation incarnation) {
  Erase(incarnation);
  Deal();
}

void Roster::Evict(Incarnation incarnation) {
  const std::vector<Rank> orphans = Find(incarnation)->ranks;
  Erase(incarnation);
  std::vector<std::vector<Rank>*> carried;
  for (Participant* worker : Workers()) carried.push_back(&worker->ranks);
  Adopt(orphans, size_.world_size, &carried);
}

void Roster::Deal() {
  const auto ranks = Assign(Wishes(), size_.world_size);
  size_t next = 0;
  for (Participant* worker : WorkersByHost<Participant*>(&participants_)) {
    worker->ranks = (*ranks)[next++];
  }
  int share = 0;
  for (Participant& participant : participants_) {
    if (participant.share) participant.share = share++;
  }
}

std::string Roster::DealtRanks() const {
  std::vector<std::string> texts;
  for (const Participant* worker : Workers()) {
    if (!worker->wish.empty()) continue;
    texts.push_back(absl::StrCat(NameOf(worker->ranks), worker->ranks.size() > 1 ? " are " : " is ",
                                 worker->address));
  }
  return absl::StrJoin(texts, ", ");
}

Participant* Roster::Find(SessionId session) {
  for (Participant& participant : participants_) {
    if (participant.session == session) return &participant;
  }
  return nullptr;
}

const Participant* Roster::Find(Incarnation incarnation) const {
  for (const Participant& participant : participants_) {
    if (participant.incarnation == incarnation) return &participant;
  }
  return nullptr;
}

Participant* Roster::Find(Incarnation incarnation) {
  return const_cast<Participant*>(std::as_const(*this).Find(incarnation));
}

std::vector<const Participant*> Roster::Workers() const {
  std::vector<const Participant*> workers = All();
  workers.resize(WorkerCount());
  return workers;
}

std::vector<Participant*> Roster::Workers() {
  std::vector<Participant*> workers = All();
  workers.resize(WorkerCount());
  return workers;
}

std::vector<const Participant*> Roster::WorkersAsTheyJoined() const {
  std::vector<const Participant*> workers;
  for (const Participant& participant : participants_) {
    if (!participant.share) workers.push_back(&participant);
  }
  return workers;
}

std::vector<const Participant*> Roster::All() const {
  return InOrder<const Participant*>(&participants_);
}

std::vector<Participant*> Roster::All() { return InOrder<Participant*>(&participants_); }

absl::Duration Roster::OnTick(absl::Time now) {
  const absl::Duration gap = now - last_tick_;
  last_tick_ = now;
  lag_.OnTick(gap);
  const absl::Duration still = StoodStill(gap);
  if (still == absl::ZeroDuration()) return still;
  for (Participant& participant : participants_) {
    participant.last_heard = std::min(now, participant.last_heard + still);
    participant.gaps.OnPause(still, now);
  }
  return still;
}

absl::Duration Roster::LeaseOf(const Participant& participant) const {
  return LeaseFor(participant.gaps, lag_, lease_);
}

std::vector<Incarnation> Roster::Silent(absl::Time now) const {
  std::vector<Incarnation> silent;
  for (const Participant* participant : All()) {
    const bool is_awaited = participant->session && participant->standing != Standing::kLost;
    if (is_awaited && now - participant->last_heard > LeaseOf(*participant)) {
      silent.push_back(participant->incarnation);
    }
  }
  return silent;
}

namespace {

v1::RankStatus StatusOf(const Participant& worker, const v1::RankStatus& progress,
                        std::optional<absl::Time> now) {
  static constexpr const char* kNames[] = {"running", "finished", "lost"};
  v1::RankStatus status = progress;
  status.set_address(worker.address);
  status.set_metrics(worker.metrics);
  status.set_pid(worker.pid);
  // A worker with an open session may come back.
  const bool is_awaited = worker.standing == Standing::kLost && worker.session.has_value();
  status.set_state(is_awaited ? "silent" : kNames[static_cast<int>(worker.standing)]);
  if (worker.session && now) {
    status.set_silent_seconds(absl::ToDoubleSeconds(*now - worker.last_heard));
  }
  return status;
}

}  // namespace

StepTally::StepTally(int world_size, Step first) : ranks_(world_size) {
  for (int rank = 0; rank < world_size; ++rank) {
    ranks_[rank].set_rank(rank);
    ranks_[rank].set_steps_done(first.value());
  }
}

void StepTally::Take(const v1::StepDone& done) {
  v1::RankStatus& rank = ranks_[done.rank()];
  rank.set_steps_done(std::max(rank.steps_done(), done.step() + 1));
  *rank.mutable_last_step() = done;
}

void StepTally::Complete(absl::Span<const Rank> ranks, Step open) {
  for (const Rank rank : ranks) {
    v1::RankStatus& status = ranks_[rank.value()];
    status.set_steps_done(std::max<uint64_t>(status.steps_done(), open.value()));
  }
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
