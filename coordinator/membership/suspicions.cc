#include "coordinator/membership/suspicions.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

// State of a worker in a step for which another one waits in vain.
enum class Blame {
  kBusy,    // it does not wait in the step yet
  kSilent,  // it has sent nothing since the other one complained
  kBehind,  // it waits, but is behind the other one
  kWaits,   // it waits like the other one, or it is further
};

Blame BlameOf(const WorkerState& worker, const WorkerState& by, const Suspicion& late,
              absl::Time since) {
  if (worker.heard < since) return Blame::kSilent;
  if (worker.owes_layout) return Blame::kBusy;
  if (!worker.work.has_value()) {
    // A worker that reports no work has not begun the view if others have. In a program that never
    // reports, the named worker is to blame.
    return by.work.has_value() || late.suspect == worker.incarnation ? Blame::kBusy : Blame::kWaits;
  }
  if (!worker.work->waits && worker.work->step <= late.step) return Blame::kBusy;
  const bool is_overtaken = worker.work->step.value() + 1 < late.step.value();
  return (by.ready && !worker.ready) || is_overtaken ? Blame::kBehind : Blame::kWaits;
}

}  // namespace

void Suspicions::Add(Suspicion suspicion, absl::Time now) {
  if (suspicion.late) {
    if (late_.size() < kMostLate) late_.push_back({std::move(suspicion), now});
    return;
  }
  const auto is_of_the_pair = [&](const Told& told) {
    const Suspicion& other = told.suspicion;
    return (other.by == suspicion.by && other.suspect == suspicion.suspect) ||
           (other.by == suspicion.suspect && other.suspect == suspicion.by);
  };
  const auto same = std::find_if(told_.begin(), told_.end(), is_of_the_pair);
  if (same != told_.end()) {
    const bool is_better = same->suspicion.broke_off && !suspicion.broke_off;
    if (is_better) same->suspicion = std::move(suspicion);
  } else if (told_.size() < kMost) {
    told_.push_back({std::move(suspicion), now});
  }
}

std::optional<absl::Time> Suspicions::since() const {
  if (told_.empty() && late_.empty()) return std::nullopt;
  if (told_.empty() || late_.empty()) return (told_.empty() ? late_ : told_).front().at;
  return std::min(told_.front().at, late_.front().at);
}

void Suspicions::OnPause(absl::Duration still) {
  for (Told& told : told_) told.at += still;
  for (Told& late : late_) late.at += still;
}

void Suspicions::Explain(Incarnation lost) {
  const auto is_explained = [lost](const Told& told) {
    return told.suspicion.by == lost || told.suspicion.suspect == lost;
  };
  told_.erase(std::remove_if(told_.begin(), told_.end(), is_explained), told_.end());
  late_.erase(std::remove_if(late_.begin(), late_.end(), is_explained), late_.end());
}

// Finds a minimum vertex cover: one of each pair is lost. The number of choices is small.
std::set<Incarnation> Suspicions::FewestOf(const std::vector<WorkerState>& joined,
                                           absl::Time since) const {
  // Lower is better: number of lost workers, of these the number that were heard, the number
  // without earlier suspicions, and how early they joined, the latest first.
  using Cost = std::tuple<size_t, size_t, size_t, std::vector<std::ptrdiff_t>>;
  const auto cost_of = [&](const std::set<Incarnation>& who) {
    size_t heard = 0, unsuspected = 0;
    std::vector<std::ptrdiff_t> from_last;
    for (const Incarnation one : who) {
      unsuspected += stood_.count(one) == 0;
      const auto at = std::find_if(joined.begin(), joined.end(),
                                   [one](const WorkerState& of) { return of.incarnation == one; });
      heard += at != joined.end() && at->heard >= since;
      from_last.push_back(joined.end() - at);
    }
    std::sort(from_last.begin(), from_last.end());
    return Cost(who.size(), heard, unsuspected, from_last);
  };
  std::optional<std::pair<Cost, std::set<Incarnation>>> best;
  for (size_t choice = 0; choice < size_t{1} << told_.size(); ++choice) {
    std::set<Incarnation> who;
    for (size_t i = 0; i < told_.size(); ++i) {
      const Suspicion& suspicion = told_[i].suspicion;
      who.insert((choice >> i & 1) != 0 ? suspicion.by : suspicion.suspect);
    }
    std::pair<Cost, std::set<Incarnation>> found(cost_of(who), std::move(who));
    if (!best || found.first < best->first) best = std::move(found);
  }
  return best->second;
}

void Suspicions::KeepWhatCounts() {
  const auto broke_off = [](const Told& told) { return told.suspicion.broke_off; };
  const auto behind_all_others = std::stable_partition(
      told_.begin(), told_.end(), [&](const Told& told) { return !broke_off(told); });
  if (behind_all_others == told_.begin()) {
    std::iter_swap(told_.begin(), std::min_element(told_.begin(), told_.end(),
                                                   [](const Told& one, const Told& other) {
                                                     return one.suspicion.at < other.suspicion.at;
                                                   }));
  }
  told_.erase(std::max(behind_all_others, told_.begin() + 1), told_.end());
}

// All break off with a worker that waited in vain, so those suspicions are only consequences.
std::vector<Culprit> Suspicions::Judge(const std::vector<WorkerState>& joined) {
  std::vector<Culprit> culprits = late_.empty() ? JudgeUnreached(joined) : JudgeLate(joined);
  Forget();
  return culprits;
}

std::vector<Culprit> Suspicions::JudgeLate(const std::vector<WorkerState>& joined) const {
  std::map<Blame, std::map<Incarnation, Culprit>> found;
  for (const Told& told : late_) {
    const Suspicion& late = told.suspicion;
    const auto by = std::find_if(joined.begin(), joined.end(), [&late](const WorkerState& worker) {
      return worker.incarnation == late.by;
    });
    if (by == joined.end()) continue;
    for (const WorkerState& worker : joined) {
      if (worker.incarnation == late.by || worker.is_over) continue;
      const std::string cause = absl::StrCat(late.by_name, " waited in vain for its part of step ",
                                             late.step.value(), ": ", late.cause);
      found[BlameOf(worker, *by, late, told.at)].try_emplace(worker.incarnation,
                                                             Culprit{worker.incarnation, cause});
    }
  }
  std::vector<Culprit> culprits;
  for (const Blame blame : {Blame::kBusy, Blame::kSilent, Blame::kBehind}) {
    for (const auto& [incarnation, culprit] : found[blame]) culprits.push_back(culprit);
    if (!culprits.empty()) break;
  }
  return culprits;
}

std::vector<Culprit> Suspicions::JudgeUnreached(const std::vector<WorkerState>& joined) {
  const absl::Time since = told_.front().at;
  KeepWhatCounts();
  const std::set<Incarnation> lost = FewestOf(joined, since);
  std::vector<Culprit> culprits;
  for (const Incarnation one : lost) {
    const auto told = std::find_if(told_.begin(), told_.end(), [one](const Told& of) {
      return of.suspicion.by == one || of.suspicion.suspect == one;
    });
    const Suspicion& suspicion = told->suspicion;
    culprits.push_back(
        {one, suspicion.suspect == one
                  ? absl::StrCat(suspicion.by_name, " got no answer from it: ", suspicion.cause)
                  : absl::StrCat("it got no answer from ", suspicion.suspect_name, ": ",
                                 suspicion.cause)});
  }
  for (const Told& told : told_) {
    for (const Incarnation one : {told.suspicion.by, told.suspicion.suspect}) {
      if (lost.count(one) == 0) stood_.insert(one);
    }
  }
  return culprits;
}

}  // namespace gradwire
