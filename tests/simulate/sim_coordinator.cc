#include "tests/simulate/sim_coordinator.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace gradwire::simulate {
namespace {

// Longer than anybody is silent.
constexpr absl::Duration kPauseTimeout = absl::Seconds(60);

MembershipConfig ConfigOf(const Setup& setup) {
  MembershipConfig config;
  config.run_id = RunId{7};
  config.world_size = setup.world_size;
  config.workers = setup.workers;
  config.min_lease = setup.min_lease;
  config.lease = setup.lease;
  config.chunk_bytes = setup.chunk_bytes;
  config.recover = true;
  if (setup.waits) {
    config.min_workers = setup.workers;
    config.pause_timeout = kPauseTimeout;
  }
  return config;
}

SessionId SessionOf(const Member& member) { return SessionId(member.incarnation.value() + 1); }

}  // namespace

SimCoordinator::SimCoordinator(Scene* scene, Ports ports)
    : scene_(scene),
      ports_(std::move(ports)),
      site_(scene),
      membership_(ConfigOf(scene->setup), scene->events.now()) {}

void SimCoordinator::Tick() {
  if (scene_->checks.is_over()) return;
  process_.Take([this] {
    if (!scene_->IsPlanted(Plant::kLeasesIgnored)) {
      Carry(membership_.OnTick(scene_->events.now()));
    }
    scene_->events.After(kTick, [this] { Tick(); });
  });
}

void SimCoordinator::OnMessage(SessionId session, const v1::WorkerMessage& message) {
  if (message.has_hello()) open_.insert(session);
  if (open_.count(session) == 0) return;  // it has ended
  if (message.has_ready()) return OnReady(session, message);
  Carry(membership_.OnMessage(session, message, scene_->events.now()));
}

void SimCoordinator::OnReady(SessionId session, const v1::WorkerMessage& message) {
  v1::WorkerMessage heard = message;
  if (scene_->IsPlanted(Plant::kOldReadyCounts)) {
    heard.mutable_ready()->set_generation(view_.generation.value());
  }
  const bool is_first = ready_.empty();
  if (heard.ready().generation() == view_.generation.value()) ready_.insert(session);
  const v1::Ready ready = heard.ready();
  Carry(membership_.OnMessage(session, heard, scene_->events.now()));
  if (is_first && scene_->IsPlanted(Plant::kSealTooEarly)) SealEarly(ready);
  if (scene_->IsPlanted(Plant::kSealWithoutWorker) && ready_.size() + 1 == view_.members.size()) {
    ForgeReady(session, ready);
  }
}

// From the one that has not said it.
void SimCoordinator::ForgeReady(SessionId except, const v1::Ready& ready) {
  for (const Member& member : view_.members) {
    const SessionId session = SessionOf(member);
    if (session == except || ready_.count(session) > 0 || open_.count(session) == 0) continue;
    v1::WorkerMessage message;
    *message.mutable_ready() = ready;
    return Carry(membership_.OnMessage(session, message, scene_->events.now()));
  }
}

void SimCoordinator::SealEarly(const v1::Ready& ready) {
  scene_->checks.OnSealed(Step(ready.step()));
  for (const Member& member : view_.members) {
    v1::CoordinatorMessage message;
    message.mutable_sealed()->set_step(ready.step());
    message.mutable_sealed()->set_generation(ready.generation());
    ports_.tell(SessionOf(member), message);
  }
}

void SimCoordinator::OnStreamClosed(SessionId session, absl::string_view cause) {
  if (open_.erase(session) == 0) return;
  Carry(membership_.OnStreamClosed(session, cause, scene_->events.now()));
}

void SimCoordinator::Carry(const Outcome& outcome) {
  if (!outcome.why.empty()) scene_->journal.Say("coordinator: ", outcome.why);
  bool seals = false;
  for (const Action& action : outcome.actions) {
    if (const auto* sealed = std::get_if<SendSealed>(&action); sealed != nullptr && !seals) {
      seals = true;
      ready_.clear();
      scene_->journal.Say("sealed: step ", sealed->step.value());
      scene_->checks.OnSealed(sealed->step);
      scene_->reached(Moment::kSealed, -1);
    }
    std::visit([this](const auto& a) { Enact(a); }, action);
  }
}

// The plants that are about views, in any but the first.
View SimCoordinator::Falsified(View view) const {
  if (view.generation.value() < 2 || scene_->plant == Plant::kNone) return view;
  const auto most = std::max_element(
      view.members.begin(), view.members.end(),
      [](const Member& a, const Member& b) { return a.ranks.size() < b.ranks.size(); });
  const Rank rank = most->ranks.back();
  if (scene_->IsPlanted(Plant::kRankForgotten)) most->ranks.pop_back();
  if (scene_->IsPlanted(Plant::kRankTwice)) {
    for (Member& member : view.members) {
      if (&member == &*most) continue;
      member.ranks.push_back(rank);
      std::sort(member.ranks.begin(), member.ranks.end());
      break;
    }
  }
  if (scene_->IsPlanted(Plant::kGenerationReused)) {
    view.generation = Generation(view.generation.value() - 1);
  }
  if (scene_->IsPlanted(Plant::kStepSkipped)) ++view.first_step;
  if (scene_->IsPlanted(Plant::kStepAgain) && view.first_step > Step(0)) {
    view.first_step = Step(view.first_step.value() - 1);
  }
  return view;
}

void SimCoordinator::Enact(const FormRun& form) {
  const bool is_first = view_.members.empty();
  view_ = Falsified(form.view);
  ready_.clear();
  scene_->checks.OnViewMade(view_);
  if (!is_first) site_.Abort(absl::AbortedError("a newer view has begun"));
  site_.Serve(view_, Shard());
  if (!is_first) scene_->reached(Moment::kViewMade, -1);
}

void SimCoordinator::Enact(const SendView& send) {
  const bool is_later = send.view.generation.value() > 1;
  if (is_later && scene_->IsPlanted(Plant::kUntoldLoss) &&
      send.view.self == send.view.members.front().incarnation) {
    return;
  }
  v1::CoordinatorMessage message;
  *message.mutable_view() = ToProto(Falsified(send.view));
  ports_.tell(send.session, message);
}

void SimCoordinator::Enact(const AgreeLayout& agree) {
  site_.AddLayout(agree.layout, agree.buckets);
  if (view_.generation.value() == 1) ports_.begun();
}

void SimCoordinator::Enact(const SendSealed& send) {
  v1::CoordinatorMessage message;
  message.mutable_sealed()->set_step(send.step.value());
  message.mutable_sealed()->set_generation(send.generation.value());
  ports_.tell(send.session, message);
}

void SimCoordinator::Enact(const SendLayoutAgreed& send) {
  v1::CoordinatorMessage message;
  message.mutable_layout_agreed()->set_id(static_cast<uint32_t>(send.layout.value()));
  ports_.tell(send.session, message);
}

void SimCoordinator::Enact(const SendAbort& send) {
  v1::CoordinatorMessage message;
  message.mutable_abort()->set_reason(send.reason);
  ports_.tell(send.session, message);
}

void SimCoordinator::Enact(const CloseSession& close) {
  open_.erase(close.session);
  ports_.close(close.session, close.status);
}

void SimCoordinator::Enact(const EndRun& end) {
  site_.Abort(absl::AbortedError("the run is over"));
  scene_->checks.OnRunOver(end.status);
}

void SimCoordinator::Enact(const PauseRun& pause) {
  site_.Abort(absl::AbortedError(pause.reason));
  scene_->checks.OnPaused();
}

void SimCoordinator::Enact(const SendPaused& send) {
  v1::CoordinatorMessage message;
  message.mutable_paused()->set_reason(send.reason);
  ports_.tell(send.session, message);
}

}  // namespace gradwire::simulate
