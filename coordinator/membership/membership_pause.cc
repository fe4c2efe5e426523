// The part of Membership that lets a run wait while it has too few workers.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/membership/membership.h"

namespace gradwire {
namespace {

std::string ShownSeconds(absl::Duration duration) {
  return absl::StrCat(absl::ToDoubleSeconds(duration), " s");
}

}  // namespace

// Not once nobody is left who could come back or has the run's state.
bool Membership::CanWaitFor(const Participant& member) const {
  if (member.share || config_.pause_timeout <= absl::ZeroDuration() || through_) return false;
  if (!WhyNobodyGoesOn().empty() || TooFewWithout(member).empty()) return false;
  const auto workers = roster_.Workers();
  return std::any_of(workers.begin(), workers.end(), [&member](const Participant* worker) {
    return worker != &member && worker->session.has_value();
  });
}

size_t Membership::WorkersThere() const {
  const auto workers = roster_.Workers();
  return static_cast<size_t>(std::count_if(
      workers.begin(), workers.end(),
      [](const Participant* worker) { return worker->standing == Standing::kRunning; }));
}

void Membership::Await(Participant* silent, absl::string_view cause, absl::Time now,
                       Outcome* outcome) {
  silent->standing = Standing::kLost;
  Pause(absl::StrCat(Describe(*silent), " is not heard: ", cause, "; ", TooFewWithout(*silent)),
        now, outcome);
}

void Membership::Pause(const std::string& why, absl::Time now, Outcome* outcome) {
  if (!paused_until_) paused_until_ = now + config_.pause_timeout;
  paused_for_ = why;
  suspicions_.Forget();
  stragglers_.Forget();
  reason_ = absl::StrCat(why, "; the run is paused, and ends in ",
                         ShownSeconds(*paused_until_ - now), " unless one comes back");
  outcome->actions.emplace_back(PauseRun{open_, static_cast<int>(WorkersThere()), reason_});
  for (const Participant* worker : roster_.Workers()) {
    if (worker->session) outcome->actions.emplace_back(SendPaused{*worker->session, reason_});
  }
  outcome->Say(reason_);
}

// Enough of them, and the run goes on with what all have before the open step.
void Membership::OnHeardAgain(Participant* worker, absl::Time now, Outcome* outcome) {
  worker->standing = Standing::kRunning;
  outcome->Say(absl::StrCat(Describe(*worker), " is heard again"));
  if (WorkersThere() < static_cast<size_t>(config_.min_workers)) return;
  std::vector<Incarnation> lost;
  for (const Participant* each : roster_.Workers()) {
    if (each->standing == Standing::kLost) lost.push_back(each->incarnation);
  }
  paused_until_.reset();
  for (const Incarnation incarnation : lost) {
    Participant* const gone = roster_.Find(incarnation);
    if (gone->session) {
      const std::string cause = "it was silent while the run was paused";
      TellOfLoss(*gone, cause, now, outcome);
      Dismiss(gone, cause, outcome);
    }
    roster_.Evict(incarnation);
  }
  reason_ = roster_.Count();
  BeginNextView(now, outcome);
  outcome->Say(absl::StrCat("the run goes on: generation ", generation_.value(),
                            " begins with step ", open_.value()));
}

void Membership::EndLongPause(absl::Time now, Outcome* outcome) {
  if (!paused_until_ || now < *paused_until_) return;
  for (const Participant* worker : roster_.Workers()) {
    const bool is_awaited = worker->standing == Standing::kLost && worker->session;
    if (is_awaited) TellOfLoss(*worker, "it was silent to the end of a pause", now, outcome);
  }
  Fail(absl::AbortedError(absl::StrCat("the run was paused for ",
                                       ShownSeconds(config_.pause_timeout),
                                       ", and nobody came back: ", paused_for_)),
       outcome);
}

}  // namespace gradwire
