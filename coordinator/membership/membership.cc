#include "coordinator/membership/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/plain_text.h"
#include "coordinator/membership/roster.h"

namespace gradwire {
namespace {

// Time for a worker to close its trace after the last step. It has written its results by then.
constexpr absl::Duration kDeparture = absl::Minutes(1);

// Longest text of a member in messages for people.
constexpr size_t kMostAddress = 100;

RunSize SizeOf(const MembershipConfig& config) {
  const int workers = config.workers == 0 ? config.world_size : config.workers;
  return {config.world_size, workers, config.aggregators};
}

std::string InSeconds(absl::Duration duration) {
  return absl::StrCat(absl::ToDoubleSeconds(duration), " s");
}

}  // namespace

void Outcome::Say(absl::string_view sentence) {
  absl::StrAppend(&why, why.empty() ? "" : "; ", sentence);
}

Membership::Membership(const MembershipConfig& config, absl::Time start)
    : config_(config),
      rendezvous_deadline_(start + config.rendezvous_timeout),
      roster_(SizeOf(config), LeaseLimits{config.min_lease, config.lease}, start),
      layouts_(config.world_size, roster_.size().workers),
      steps_(config.world_size, config.resumed ? config.resumed->step : Step(0)) {
  if (config.resumed) step_ = open_ = config.resumed->step;
  reason_ = roster_.Count();
}

absl::Status Membership::CheckOpen() const {
  if (IsOver()) return absl::FailedPreconditionError(absl::StrCat("the run is over: ", reason_));
  if (paused_until_) {
    return absl::FailedPreconditionError(
        "the run is paused and waits for its own workers; no other worker can take their place");
  }
  if (state_ == State::kWaiting || roster_.HasAllWorkers()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the run goes on without the workers that it has lost; no other worker can take their place");
}

Outcome Membership::OnMessage(SessionId session, const v1::WorkerMessage& message, absl::Time now) {
  switch (message.message_case()) {
    case v1::WorkerMessage::kHello:
      return OnHello(session, message.hello(), now);
    case v1::WorkerMessage::kHeartbeat:
      return OnHeartbeat(session, message.heartbeat(), now);
    case v1::WorkerMessage::kStepDone:
      return OnStepDone(session, message.step_done(), now);
    case v1::WorkerMessage::kSuspect:
      return OnSuspect(session, message.suspect(), now);
    case v1::WorkerMessage::kLeave:
      return OnLeave(session, message.leave(), now);
    case v1::WorkerMessage::kOffer:
      return OnOffer(session, message.offer(), now);
    case v1::WorkerMessage::kLayout:
      return OnLayout(session, message.layout(), now);
    case v1::WorkerMessage::kReady:
      return OnReady(session, message.ready(), now);
    case v1::WorkerMessage::kHolds:
      return OnHolds(session, message.holds(), now);
    case v1::WorkerMessage::MESSAGE_NOT_SET:
      break;
  }
  return OnNonsense(session, "a message of unknown kind", now);
}

Outcome Membership::OnHello(SessionId session, const v1::Hello& hello, absl::Time now) {
  if (roster_.Find(session) != nullptr) return OnNonsense(session, "a second Hello", now);
  absl::Status status = CheckOpen();
  if (status.ok()) status = CheckHello(hello, roster_, settings_);
  if (status.ok() && config_.keeps_state) status = CheckKeeping(hello);
  if (status.ok() && config_.resumed) status = CheckResumed(hello, *config_.resumed);
  if (!status.ok()) {
    return Refuse(session, absl::StrCat("a worker at ", Shortened(hello.address(), kMostAddress)),
                  status);
  }
  settings_ = SettingsOf(hello);
  roster_.Add(WorkerOf(session, hello, now));
  Outcome outcome = Welcome(Incarnation(hello.incarnation()));
  if (!config_.resumed) return outcome;
  const std::string difference = DifferenceInEnvironment(hello, *config_.resumed);
  if (!difference.empty()) outcome.Say(difference);
  outcome.warns = !difference.empty();
  return outcome;
}

Outcome Membership::OnOffer(SessionId session, const v1::Offer& offer, absl::Time now) {
  if (roster_.Find(session) != nullptr) return OnNonsense(session, "a second Offer", now);
  absl::Status status = CheckOpen();
  if (status.ok()) status = CheckOffer(offer, roster_);
  if (!status.ok()) {
    return Refuse(session,
                  absl::StrCat("an aggregator at ", Shortened(offer.address(), kMostAddress)),
                  status);
  }
  roster_.Add(AggregatorOf(session, offer, now));
  return Welcome(Incarnation(offer.incarnation()));
}

Outcome Membership::Refuse(SessionId session, absl::string_view who,
                           const absl::Status& status) const {
  return {{CloseSession{session, status}}, absl::StrCat("refused ", who, ": ", status.message())};
}

Outcome Membership::Welcome(Incarnation incarnation) {
  reason_ = roster_.Count();
  Outcome outcome;
  const Participant& member = *roster_.Find(incarnation);
  // A worker without a wish gets its ranks when all are present.
  const bool has_ranks = member.share || !member.wish.empty();
  outcome.why =
      absl::StrCat(has_ranks ? Describe(member) : absl::StrCat("a worker at ", member.address),
                   " joined; ", reason_);
  FormIfComplete(&outcome);
  return outcome;
}

void Membership::FormIfComplete(Outcome* outcome) {
  if (!roster_.HasAllWorkers() || !roster_.HasAllAggregators()) return;
  state_ = State::kRunning;
  threads_ =
      config_.resumed ? config_.resumed->threads : ThreadsFor(std::as_const(roster_).Workers());
  seals_ = WhyNotSeal().empty();
  SendViewToAll(outcome);
  outcome->Say(absl::StrCat("the run begins with generation ", generation_.value()));
  const std::string dealt = roster_.DealtRanks();
  if (!dealt.empty()) outcome->Say(dealt);
}

std::string Membership::WhyNotSeal() const {
  for (const Participant* worker : roster_.Workers()) {
    if (!worker->cannot_recover.empty()) return worker->cannot_recover;
  }
  if (config_.records) return "";
  if (!config_.recover) return "the run ends after a loss";
  return roster_.Workers().size() > 1 ? "" : "it has one worker";
}

void Membership::SendViewToAll(Outcome* outcome) {
  stragglers_.Forget();
  ++generation_;
  View view = MakeView();
  outcome->actions.emplace_back(FormRun{view, WhyNotSeal()});
  for (const Participant* member : std::as_const(roster_).All()) {
    view.self = member->incarnation;
    view.aggregator.reset();
    if (member->share) view.aggregator = *member->share;
    outcome->actions.emplace_back(SendView{*member->session, view});
  }
}

View Membership::MakeView() const {
  View view;
  view.run_id = config_.run_id;
  view.epoch = config_.epoch;
  view.generation = generation_;
  view.world_size = config_.world_size;
  view.chunk_bytes = config_.chunk_bytes;
  view.threads = threads_;
  view.first_step = open_;
  view.seals = seals_;
  view.records = config_.records;
  view.keeps_state = config_.keeps_state;
  view.checkpoint_every = config_.checkpoint_every;
  for (const Participant* member : roster_.All()) {
    if (member->share) {
      view.aggregators.push_back(member->address);
    } else {
      view.members.push_back({member->incarnation, member->address, member->ranks, member->pid,
                              member->memory, member->limits});
    }
  }
  return view;
}

Participant* Membership::Hear(SessionId session, absl::string_view what, absl::Time now,
                              Outcome* outcome) {
  Participant* member = roster_.Find(session);
  if (member == nullptr) {
    *outcome = OnNonsense(session, absl::StrCat(what, " before Hello"), now);
    return nullptr;
  }
  member->last_heard = now;
  return member;
}

Participant* Membership::HearWorker(SessionId session, absl::string_view what, absl::Time now,
                                    Outcome* outcome) {
  Participant* member = Hear(session, what, now, outcome);
  if (member == nullptr) return nullptr;
  if (!member->share && state_ == State::kRunning) return member;
  const absl::string_view when = member->share ? " of an aggregator" : " before the View";
  *outcome = OnNonsense(session, absl::StrCat(what, when), now);
  return nullptr;
}

Outcome Membership::OnHeartbeat(SessionId session, const v1::Heartbeat& heartbeat, absl::Time now) {
  Outcome outcome;
  Participant* member = Hear(session, "Heartbeat", now, &outcome);
  if (member == nullptr) return outcome;
  const bool is_back = missing_.count(member->incarnation) > 0;
  if (is_back)
    member->gaps.OnPause(absl::InfiniteDuration(),
                         now);  // its usual gap does not include the pause
  member->gaps.OnHeartbeat(now);
  if (heartbeat.has_work()) NoteWork(member->incarnation, heartbeat.work(), now);
  if (heartbeat.sent() > 0) outcome.actions.emplace_back(SendEcho{session, heartbeat.sent()});
  if (is_back) OnHeardAgain(member, now, &outcome);
  return outcome;
}

Outcome Membership::OnLayout(SessionId session, const v1::Layout& layout, absl::Time now) {
  Outcome outcome;
  Participant* worker = HearWorker(session, "Layout", now, &outcome);
  if (worker == nullptr) return outcome;
  const absl::StatusOr<bool> agreed =
      layouts_.Declare(worker->incarnation, NameOf(*worker), layout);
  if (!agreed.ok()) {
    EndSession(worker, agreed.status(), &outcome);
    OnLoss(worker, agreed.status().message(), now, &outcome);
    return outcome;
  }
  if (layout.id() == 0) backend_ = layout.backend();
  if (*agreed) {
    Agree(LayoutId(static_cast<int>(layout.id())), &outcome);
  } else {
    CheckFinished(&outcome);
  }
  return outcome;
}

void Membership::Agree(LayoutId layout, Outcome* outcome) {
  outcome->actions.emplace_back(AgreeLayout{layout, layouts_.BucketsOf(layout),
                                            layouts_.ServingOf(layout),
                                            layouts_.IsEvaluation(layout)});
  TellAgreed(layout, outcome);
}

void Membership::TellAgreed(LayoutId layout, Outcome* outcome) {
  std::vector<const Participant*> members = std::as_const(roster_).All();
  std::reverse(members.begin(), members.end());  // aggregators first: workers send to them
  for (const Participant* member : members) {
    if (!member->session) continue;
    SendLayoutAgreed send{*member->session, layout, {}, {}};
    if (member->share) {
      send.buckets = layouts_.BucketsOf(layout);
      send.serving = layouts_.ServingOf(layout);
    }
    outcome->actions.emplace_back(std::move(send));
  }
}

void Membership::CheckFinished(Outcome* outcome) {
  for (const Participant* worker : roster_.Workers()) {
    if (worker->standing != Standing::kFinished) continue;
    const std::optional<std::string> missing = layouts_.MissingOf(worker->incarnation);
    if (!missing) continue;
    return Fail(absl::AbortedError(absl::StrCat(Describe(*worker), " finished without declaring ",
                                                *missing, ", as others did")),
                outcome);
  }
}

Outcome Membership::OnStepDone(SessionId session, const v1::StepDone& done, absl::Time now) {
  Outcome outcome;
  const Participant* worker = HearWorker(session, "StepDone", now, &outcome);
  if (worker == nullptr) return outcome;
  const Rank rank(static_cast<int>(done.rank()));
  if (std::find(worker->ranks.begin(), worker->ranks.end(), rank) == worker->ranks.end()) {
    return OnNonsense(session, absl::StrCat("StepDone of rank ", done.rank()), now);
  }
  if (done.generation() > generation_.value()) {
    return OnNonsense(session,
                      absl::StrCat("StepDone of generation ", done.generation(),
                                   ", expected at most ", generation_.value()),
                      now);
  }
  steps_.Take(done);
  stragglers_.OnStep(absl::Seconds(done.iteration_seconds()));
  outcome.actions.emplace_back(TakeStep{done});
  EnterStepIfAllDid(&outcome);
  return outcome;
}

void Membership::EnterStepIfAllDid(Outcome* outcome) {
  const Step first_open = steps_.FirstOpen();
  if (first_open <= step_) return;
  step_ = first_open;
  outcome->actions.emplace_back(EnterStep{step_});
}

Outcome Membership::OnReady(SessionId session, const v1::Ready& ready, absl::Time now) {
  Outcome outcome;
  Participant* worker = HearWorker(session, "Ready", now, &outcome);
  if (worker == nullptr) return outcome;
  if (ready.has_lost()) {
    outcome.actions.emplace_back(TellCost{Generation(ready.generation()), FromProto(ready.lost())});
  }
  if (ready.generation() != generation_.value()) return outcome;
  if (paused_until_) return outcome;  // all workers repeat the step
  if (!seals_ || through_ || worker->ready || ready.step() != open_.value()) {
    return OnNonsense(
        session,
        absl::StrCat("Ready for step ", ready.step(), ", expected ", open_.value(), " once"), now);
  }
  if (absl::Status samples = CheckSamples(*worker, ready); !samples.ok()) {
    return OnNonsense(session, samples.message(), now);
  }
  worker->ready = is_sealing_ = true;
  worker->samples = {ready.samples().begin(), ready.samples().end()};
  worker->digests.clear();
  for (const v1::TensorDigest& digest : ready.digests()) {
    worker->digests.push_back({digest.tensor(), digest.digest()});
  }
  SealIfAllAreReady(ready.last(), now, &outcome);
  // All say the same. The last step is open until it is sealed.
  through_ = ready.last() && ready.step() < open_.value();
  if (through_) through_at_ = now;
  return outcome;
}

v1::SealedRecord Membership::MakeSealedRecord() const {
  v1::SealedRecord record;
  record.set_step(open_.value());
  record.set_generation(generation_.value());
  std::map<uint32_t, const v1::RankSamples*> by_rank;
  for (const Participant* worker : roster_.Workers()) {
    for (const v1::RankSamples& samples : worker->samples) by_rank[samples.rank()] = &samples;
    if (!worker->digests.empty()) record.set_digest(DigestOf(worker->digests));
  }
  for (const auto& [rank, samples] : by_rank) *record.add_samples() = *samples;
  return record;
}

void Membership::SealIfAllAreReady(bool last, absl::Time now, Outcome* outcome) {
  const std::vector<Participant*> workers = roster_.Workers();
  const auto is_ready = [](const Participant* worker) {
    return worker->ready || worker->standing == Standing::kFinished;
  };
  if (!std::all_of(workers.begin(), workers.end(), is_ready)) return;
  if (const auto difference = CompareReplicas(workers)) {
    return OnDifference(*difference, now, outcome);
  }
  if (config_.records && !last) outcome->actions.emplace_back(RecordStep{MakeSealedRecord()});
  for (Participant* worker : workers) {
    worker->ready = false;
    if (worker->session)
      outcome->actions.emplace_back(SendSealed{*worker->session, open_, generation_});
  }
  ++open_;
  suspicions_.OnSealed();
}

Outcome Membership::OnLeave(SessionId session, const v1::Leave& leave, absl::Time now) {
  Outcome outcome;
  Participant* member = Hear(session, "Leave", now, &outcome);
  if (member == nullptr) return outcome;
  EndSession(member, absl::OkStatus(), &outcome);
  const bool has_finished = leave.finished() && state_ == State::kRunning && !member->share;
  // Others still need a worker that has not waited for the last step to be sealed.
  if (has_finished && (through_ || !seals_ || !is_sealing_)) {
    Finish(member, &outcome);
    return outcome;
  }
  const std::string reason = has_finished             ? "the last step is not sealed yet"
                             : leave.reason().empty() ? "no reason given"
                                                      : leave.reason();
  if (leave.ends_run() && state_ == State::kRunning) {
    Fail(absl::AbortedError(
             absl::StrCat(NameOf(*member), " ends the run: ", Shortened(reason, kMostCause))),
         &outcome);
    return outcome;
  }
  OnLoss(member, absl::StrCat("it left: ", reason), now, &outcome);
  return outcome;
}

Outcome Membership::OnNonsense(SessionId session, absl::string_view what, absl::Time now) {
  const absl::Status status = absl::InvalidArgumentError(absl::StrCat("session: got ", what));
  Participant* member = roster_.Find(session);
  if (member == nullptr) {
    return {{CloseSession{session, status}}, absl::StrCat("closed a session: got ", what)};
  }
  Outcome outcome;
  EndSession(member, status, &outcome);
  OnLoss(member, absl::StrCat("it broke the protocol: ", what), now, &outcome);
  return outcome;
}

Outcome Membership::OnStreamClosed(SessionId session, absl::string_view cause, absl::Time now) {
  Outcome outcome;
  Participant* member = roster_.Find(session);
  if (member == nullptr) return outcome;
  member->session.reset();
  OnLoss(member, cause, now, &outcome);
  return outcome;
}

void Membership::OnUnread(SessionId session, absl::Time now) {
  Participant* member = roster_.Find(session);
  if (member != nullptr) member->last_heard = now;
}

Outcome Membership::OnTick(absl::Time now) {
  Outcome outcome;
  if (const absl::Duration gap = roster_.OnTick(now); gap > absl::ZeroDuration()) {
    stragglers_.Forget();
    suspicions_.OnPause(gap);
    if (paused_until_) *paused_until_ += gap;
    through_at_ += gap;
  }
  if (state_ == State::kRunning && !paused_until_) NameStragglers(now, &outcome);
  CheckLeases(now, &outcome);
  CheckDeparture(now, &outcome);
  CheckSuspicions(now, &outcome);
  EndLongPause(now, &outcome);
  if (state_ == State::kWaiting && now >= rendezvous_deadline_) {
    Fail(absl::DeadlineExceededError(MissingMessage()), &outcome);
  }
  return outcome;
}

Outcome Membership::OnShutdown(absl::string_view reason) {
  Outcome outcome;
  if (!IsOver()) Fail(absl::AbortedError(reason), &outcome);
  return outcome;
}

void Membership::Finish(Participant* worker, Outcome* outcome) {
  worker->standing = Standing::kFinished;
  outcome->why = absl::StrCat(Describe(*worker), " finished after ",
                              steps_.FirstOpen(worker->ranks).value(), " steps");
  CheckFinished(outcome);
  FinishIfAllHave(outcome);
}

// Ends the run if all remaining workers have finished.
void Membership::FinishIfAllHave(Outcome* outcome) {
  const auto workers = roster_.Workers();
  const bool all = std::none_of(workers.begin(), workers.end(), [](const Participant* worker) {
    return worker->standing == Standing::kRunning;
  });
  if (IsOver() || !all) return;
  state_ = State::kFinished;
  suspicions_.Forget();
  reason_ = "all ranks finished";
  outcome->Say(reason_);
  for (Participant* member : roster_.All()) {
    if (!member->session) continue;
    outcome->actions.emplace_back(SendFinish{*member->session});
    EndSession(member, absl::OkStatus(), outcome);
  }
  outcome->actions.emplace_back(EndRun{absl::OkStatus()});
}

void Membership::Fail(const absl::Status& status, Outcome* outcome) {
  state_ = State::kAborted;
  paused_until_.reset();
  missing_.clear();
  suspicions_.Forget();
  reason_ = std::string(status.message());
  outcome->why = absl::StrCat("the run failed: ", reason_);
  for (Participant* member : roster_.All()) {
    if (!member->session) continue;
    outcome->actions.emplace_back(SendAbort{*member->session, reason_});
    EndSession(member, absl::AbortedError(reason_), outcome);
  }
  outcome->actions.emplace_back(EndRun{status});
}

void Membership::EndSession(Participant* member, const absl::Status& status, Outcome* outcome) {
  outcome->actions.emplace_back(CloseSession{*member->session, status});
  member->session.reset();
}

// If a loss would end the run, the coordinator waits for the longest lease. A silence that pauses
// the run is not a loss yet.
void Membership::CheckLeases(absl::Time now, Outcome* outcome) {
  for (Incarnation incarnation : roster_.Silent(now)) {
    Participant* member = roster_.Find(incarnation);
    if (member == nullptr) continue;  // evicted together with an earlier one
    const bool is_awaited = state_ == State::kRunning && CanWaitFor(*member);
    const bool harmless = is_awaited || (state_ == State::kRunning && CanGoOnWithout(*member));
    if (!harmless && now - member->last_heard <= config_.lease) continue;
    const absl::Duration lease =
        harmless ? absl::Ceil(roster_.LeaseOf(*member), kTick) : config_.lease;
    const std::string cause = absl::StrCat("it was silent for ", InSeconds(lease));
    if (state_ == State::kWaiting) {
      EndSession(member, absl::DeadlineExceededError(cause), outcome);
    }
    is_awaited ? Await(member, cause, now, outcome) : OnLoss(member, cause, now, outcome);
    if (state_ == State::kAborted) return;
  }
}

void Membership::CheckDeparture(absl::Time now, Outcome* outcome) {
  if (IsOver() || now - through_at_ <= kDeparture) return;
  for (Participant* worker : roster_.Workers()) {
    if (worker->standing != Standing::kRunning) continue;
    OnLoss(worker, absl::StrCat("it did not leave within ", InSeconds(kDeparture)), now, outcome);
  }
}

std::string Membership::MissingMessage() const {
  const RunSize& size = roster_.size();
  std::string message =
      absl::StrCat(roster_.Workers().size(), " of ", size.workers, " workers came within ",
                   InSeconds(config_.rendezvous_timeout));
  const std::vector<Rank> missing = roster_.FreeRanks();
  if (!missing.empty()) absl::StrAppend(&message, "; missing ", NameOf(missing));
  if (roster_.HasAllAggregators()) return message;
  const size_t aggregators = roster_.All().size() - roster_.Workers().size();
  absl::StrAppend(&message, "; ", aggregators, " of ", size.aggregators, " aggregators came");
  return message;
}

v1::StatusReply Membership::Status(std::optional<absl::Time> now) const {
  static constexpr const char* kNames[] = {"waiting", "running", "finished", "aborted"};
  v1::StatusReply reply;
  reply.set_run_id(ToBytes(config_.run_id));
  reply.set_epoch(config_.epoch.value());
  reply.set_generation(generation_.value());
  reply.set_world_size(config_.world_size);
  reply.set_state(paused_until_ ? "paused" : kNames[static_cast<int>(state_)]);
  reply.set_reason(reason_);
  for (v1::RankStatus& rank : RankStatuses(roster_, steps_, now)) {
    *reply.add_ranks() = std::move(rank);
  }
  reply.mutable_settings()->insert(settings_.begin(), settings_.end());
  const auto backend = reply.mutable_settings()->find("backend");
  const bool is_told = backend != reply.mutable_settings()->end() && !backend_.empty();
  if (is_told && backend->second != backend_)
    absl::StrAppend(&backend->second, " (", backend_, ")");
  return reply;
}

}  // namespace gradwire
