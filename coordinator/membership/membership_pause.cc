// The part of Membership that pauses a run with too few workers.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/membership/membership.h"

namespace gradwire {

// A worker that never seals a step cannot break one off, so its run cannot wait. Neither can a run
// without a worker that could come back or that has the run's state.
bool Membership::CanWaitFor(const Participant& member) const {
  if (member.share || config_.pause_timeout <= absl::ZeroDuration() || through_) return false;
  if (!is_sealing_ || !WhyNobodyGoesOn().empty() || TooFewWithout(member).empty()) return false;
  const auto workers = roster_.Workers();
  return std::any_of(workers.begin(), workers.end(), [&member](const Participant* worker) {
    return worker != &member && worker->session.has_value();
  });
}

void Membership::Await(Participant* silent, absl::string_view cause, absl::Time now,
                       Outcome* outcome) {
  silent->standing = Standing::kLost;
  Pause(*silent, absl::StrCat(Describe(*silent), " is not heard: ", cause), now, outcome);
}

void Membership::Pause(const Participant& missing, const std::string& why, absl::Time now,
                       Outcome* outcome) {
  if (!paused_until_) paused_until_ = now + config_.pause_timeout;
  missing_[missing.incarnation] = why;
  suspicions_.Forget();
  stragglers_.Forget();
  ShowPause(outcome);
  for (const Participant* worker : roster_.Workers()) {
    if (worker->session) outcome->actions.emplace_back(SendPaused{*worker->session, reason_});
  }
  outcome->Say(reason_);
}

std::string Membership::WhoIsMissing() const {
  std::string text;
  for (const Participant* worker : roster_.Workers()) {
    const auto missing = missing_.find(worker->incarnation);
    if (missing == missing_.end()) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", missing->second);
  }
  return text;
}

// If the run had more workers than it needs, it would have continued. So it waits for all missing
// ones.
void Membership::ShowPause(Outcome* outcome) {
  const Participant& missing = *roster_.Find(missing_.begin()->first);
  bool can_end = true;
  for (const auto& [incarnation, why] : missing_) {
    can_end = can_end && roster_.Find(incarnation)->session.has_value();
  }
  reason_ = absl::StrCat(WhoIsMissing(), "; ", TooFewWithout(missing), "; the run is paused for ",
                         absl::ToDoubleSeconds(config_.pause_timeout), " s",
                         !can_end               ? ""
                         : missing_.size() == 1 ? ", or until this one is heard again"
                                                : ", or until these are heard again");
  outcome->actions.emplace_back(PauseRun{open_, CountWithout(nullptr), reason_});
}

// When all are back, the run continues from their state before the open step.
void Membership::OnHeardAgain(Participant* worker, absl::Time now, Outcome* outcome) {
  worker->standing = Standing::kRunning;
  missing_.erase(worker->incarnation);
  outcome->Say(absl::StrCat(Describe(*worker), " is heard again"));
  if (!missing_.empty()) return ShowPause(outcome);
  paused_until_.reset();
  reason_ = roster_.Count();
  BeginNextView({}, now, outcome);
  outcome->Say(absl::StrCat("the run goes on: generation ", generation_.value(),
                            " begins with step ", open_.value()));
}

void Membership::EndLongPause(absl::Time now, Outcome* outcome) {
  if (!paused_until_ || now < *paused_until_) return;
  const std::string why = WhoIsMissing();
  for (const Participant* worker : std::as_const(roster_).Workers()) {
    const bool is_awaited = missing_.count(worker->incarnation) > 0 && worker->session;
    if (is_awaited) TellOfLoss(*worker, "it was silent until the end of a pause", outcome);
  }
  Fail(absl::AbortedError(absl::StrCat("the run was paused for ",
                                       absl::ToDoubleSeconds(config_.pause_timeout),
                                       " s, and not all workers came back: ", why)),
       outcome);
}

}  // namespace gradwire
