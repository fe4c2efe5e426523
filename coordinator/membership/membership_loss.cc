// The part of Membership that handles the loss of a member.
#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/plain_text.h"
#include "coordinator/membership/membership.h"

namespace gradwire {
namespace {

// "rank 2 (10.10.1.3:4711) was", "ranks 0, 1 (10.10.1.2:4711) were".
std::string Was(const Participant& member) {
  return absl::StrCat(Describe(member), member.ranks.size() > 1 ? " were" : " was");
}

}  // namespace

Outcome Membership::OnSuspect(SessionId session, const v1::Suspect& suspect, absl::Time now) {
  Outcome outcome;
  const Participant* by = HearWorker(session, "Suspect", now, &outcome);
  if (by == nullptr) return outcome;
  const Incarnation incarnation(suspect.incarnation());
  const bool is_named = !suspect.late() || suspect.incarnation() != 0;
  // A worker in a later view broke off with those that have not learned of it yet.
  const bool is_past = seals_ && suspect.generation() != generation_.value();
  const bool is_lost = is_named && roster_.WasRemoved(incarnation);
  if (is_past || through_ || paused_until_ || is_lost) return outcome;
  const Participant* worker = is_named ? roster_.Find(incarnation) : nullptr;
  if (is_named && (worker == nullptr || worker->share)) {
    return OnNonsense(
        session, absl::StrCat("Suspect of ", suspect.incarnation(), ", which is no worker"), now);
  }
  const std::string cause = Shortened(suspect.cause(), kMostCause);
  outcome.why = absl::StrCat(Describe(*by), suspect.late() ? " waits in vain for " : " suspects ",
                             worker == nullptr ? "others" : Describe(*worker), " in step ",
                             suspect.step(), ": ", cause);
  suspicions_.Add(
      {by->incarnation, incarnation, NameOf(*by), worker == nullptr ? "" : NameOf(*worker), cause,
       suspect.broke_off(), suspect.at(), suspect.late(), Step(suspect.step())},
      now);
  return outcome;
}

void Membership::OnLoss(Participant* member, absl::string_view long_cause, absl::Time now,
                        Outcome* outcome) {
  const std::string cause = Shortened(long_cause, kMostCause);
  if (state_ == State::kWaiting) return FreePlace(*member, cause, outcome);
  member->standing = Standing::kLost;
  suspicions_.Explain(member->incarnation);
  TellOfLoss(*member, cause, outcome);
  if (CanGoOnWithout(*member)) return GoOnWithout(member, cause, now, outcome);
  const std::string why =
      absl::StrCat(Was(*member), " lost in step ", StepOfLoss(*member).value(), ": ", cause,
                   config_.recover && !member->share ? "; " : "",
                   config_.recover && !member->share ? WhyNotGoOnWithout(*member) : "");
  if (!CanWaitFor(*member)) return Fail(absl::AbortedError(why), outcome);
  Dismiss(member, cause, outcome);
  Pause(*member, absl::StrCat(Was(*member), " lost: ", cause), now, outcome);
}

// No other member has an aggregator's share. After the last step no worker needs an aggregator.
bool Membership::CanGoOnWithout(const Participant& member) const {
  return member.share ? through_ : WhyNotGoOnWithout(member).empty();
}

// The workers with equal parameters compute the step again.
void Membership::OnDifference(const ReplicaDifference& difference, absl::Time now,
                              Outcome* outcome) {
  const std::string where = absl::StrCat("after step ", open_.value(), ", first in ",
                                         layouts_.NameOfTensor(LayoutId(0), difference.tensor));
  if (difference.minority.empty()) {
    return Fail(absl::AbortedError(absl::StrCat("the workers' parameters differ ", where,
                                                ", and no majority says which are right")),
                outcome);
  }
  for (const Incarnation incarnation : difference.minority) {
    if (IsOver()) return;
    OnLoss(roster_.Find(incarnation),
           absl::StrCat("its parameters differ from the others' ", where), now, outcome);
  }
}

// A worker whose step was sealed was lost in the next step, even if its StepDone never arrived. The
// last seal is of no step.
Step Membership::StepOfLoss(const Participant& member) const {
  const Step open = through_ ? Step(open_.value() - 1) : open_;
  return std::max(open, steps_.FirstOpen(member.ranks));
}

void Membership::TellOfLoss(const Participant& member, absl::string_view cause,
                            Outcome* outcome) const {
  if (member.share) return;
  outcome->actions.emplace_back(
      TellLoss{member.ranks, StepOfLoss(member), std::string(cause), member.address, member.pid});
}

std::string Membership::WhyNobodyGoesOn() const {
  const auto workers = roster_.Workers();
  for (const Participant* worker : workers) {
    if (!worker->cannot_recover.empty()) {
      return absl::StrCat("the run cannot go on without it: ", worker->cannot_recover);
    }
  }
  if (!config_.recover) return "the run ends after a loss";
  if (!seals_) return "it is the only worker";
  for (const Participant* worker : workers) {
    if (worker->standing == Standing::kFinished && !through_) {
      return absl::StrCat(NameOf(*worker), " has already finished and cannot adopt ranks");
    }
  }
  return "";
}

int Membership::CountWithout(const Participant* lost) const {
  const auto workers = roster_.Workers();
  return static_cast<int>(
      std::count_if(workers.begin(), workers.end(), [lost](const Participant* worker) {
        return worker != lost && worker->standing == Standing::kRunning;
      }));
}

std::string Membership::TooFewWithout(const Participant& lost) const {
  if (through_) return "";  // no worker is needed any more
  const int left = CountWithout(&lost);
  const int least = std::max(1, config_.min_workers);
  if (left >= least) return "";
  return absl::StrCat(left, left == 1 ? " worker is" : " workers are", " left, expected ", least,
                      " or more to go on");
}

std::string Membership::WhyNotGoOnWithout(const Participant& worker) const {
  const std::string why = WhyNobodyGoesOn();
  return why.empty() ? TooFewWithout(worker) : why;
}

// After the last step no worker is needed; otherwise the others adopt the lost worker's ranks.
void Membership::GoOnWithout(Participant* lost, absl::string_view cause, absl::Time now,
                             Outcome* outcome) {
  const std::string who = Was(*lost);
  const std::vector<Rank> ranks = lost->ranks;
  Dismiss(lost, cause, outcome);
  if (through_) {
    reason_ = absl::StrCat(roster_.Count(), ": ", who, " lost after the last step");
    outcome->Say(absl::StrCat(who, " lost after the last step: ", cause));
    return FinishIfAllHave(outcome);
  }
  const std::vector<LayoutId> agreed = layouts_.Forget(lost->incarnation);
  roster_.Evict(lost->incarnation);
  steps_.Complete(ranks, open_);
  EnterStepIfAllDid(outcome);
  reason_ = absl::StrCat(roster_.Count(), ": ", who, " lost in step ", open_.value(), ", and ",
                         DescribeCarriers(ranks));
  BeginNextView(agreed, now, outcome);
  outcome->Say(absl::StrCat(who, " lost in step ", open_.value(), ": ", cause, "; ", NameOf(ranks),
                            ranks.size() > 1 ? " are" : " is", " carried on by others, generation ",
                            generation_.value(), " begins with step ", open_.value()));
}

std::string Membership::DescribeCarriers(const std::vector<Rank>& ranks) const {
  std::vector<std::string> parts;
  for (const Participant* worker : roster_.Workers()) {
    std::vector<Rank> carried;
    std::set_intersection(ranks.begin(), ranks.end(), worker->ranks.begin(), worker->ranks.end(),
                          std::back_inserter(carried));
    if (carried.empty()) continue;
    parts.push_back(absl::StrCat(NameOf(carried), carried.size() > 1 ? " are" : " is",
                                 " carried on by the worker of ", NameOf(worker->ranks)));
  }
  return absl::StrJoin(parts, "; ");
}

void Membership::Dismiss(Participant* lost, absl::string_view cause, Outcome* outcome) {
  if (!lost->session) return;
  const std::string reason =
      absl::StrCat("lost: ", cause, "; the run ", CanGoOnWithout(*lost) ? "goes on" : "waits",
                   " without this worker");
  outcome->actions.emplace_back(SendAbort{*lost->session, reason});
  EndSession(lost, absl::AbortedError(reason), outcome);
}

void Membership::BeginNextView(const std::vector<LayoutId>& agreed, absl::Time now,
                               Outcome* outcome) {
  went_on_ = now;
  suspicions_.Forget();  // they were of the previous view
  for (Participant* worker : roster_.Workers()) worker->ready = false;
  GiveUpAllHolds("a new view began before all workers had a copy", outcome);
  SendViewToAll(outcome);
  for (size_t id = 0; id < layouts_.agreed(); ++id) {
    const LayoutId layout(static_cast<int>(id));
    outcome->actions.emplace_back(AgreeLayout{layout, layouts_.BucketsOf(layout),
                                              layouts_.ServingOf(layout),
                                              layouts_.IsEvaluation(layout)});
  }
  for (const LayoutId layout : agreed) TellAgreed(layout, outcome);
}

void Membership::FreePlace(const Participant& member, absl::string_view cause, Outcome* outcome) {
  const std::string who = Describe(member);
  const absl::string_view is = member.ranks.size() > 1 ? " are" : " is";
  roster_.Remove(member.incarnation);
  if (roster_.Workers().empty()) settings_.clear();
  reason_ = roster_.Count();
  outcome->Say(absl::StrCat(who, is, " gone before the run began, its place is free: ", cause, "; ",
                            reason_));
}

void Membership::CheckSuspicions(absl::Time now, Outcome* outcome) {
  const std::optional<absl::Time> since = suspicions_.since();
  if (!since || now < *since + config_.suspect_grace) return;
  if (through_) return suspicions_.Forget();  // no worker needs another one any more
  std::vector<WorkerState> joined;
  for (const Participant* worker : roster_.WorkersAsTheyJoined()) {
    joined.push_back({worker->incarnation, worker->last_heard, worker->ready,
                      layouts_.MissingOf(worker->incarnation).has_value(),
                      WorkInThisView(worker->incarnation), worker->standing != Standing::kRunning});
  }
  for (const Culprit& culprit : suspicions_.Judge(joined)) {
    if (IsOver() || paused_until_) return;
    Participant* const worker = roster_.Find(culprit.incarnation);
    const bool is_awaited = worker->last_heard < *since && CanWaitFor(*worker);
    is_awaited ? Await(worker, culprit.cause, now, outcome)
               : OnLoss(worker, culprit.cause, now, outcome);
  }
}

}  // namespace gradwire
