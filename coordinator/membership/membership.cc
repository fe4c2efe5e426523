#include "coordinator/membership/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/plain_text.h"
#include "coordinator/membership/rank_status.h"

namespace gradwire {
namespace {

// Bytes of what others say, where people read it.
constexpr size_t kMostAddress = 100;
constexpr size_t kMostCause = 1000;

RunSize SizeOf(const MembershipConfig& config) {
  const int workers = config.workers == 0 ? config.world_size : config.workers;
  return {config.world_size, workers, config.aggregators};
}

std::string InSeconds(absl::Duration duration) {
  return absl::StrCat(absl::ToDoubleSeconds(duration), " s");
}

// "rank 2 (10.10.1.3:4711) was", "ranks 0, 1 (10.10.1.2:4711) were".
std::string Was(const Participant& member) {
  return absl::StrCat(Describe(member), member.ranks.size() > 1 ? " were" : " was");
}

void AppendSentence(absl::string_view sentence, std::string* why) {
  absl::StrAppend(why, why->empty() ? "" : "; ", sentence);
}

}  // namespace

Membership::Membership(const MembershipConfig& config, absl::Time start)
    : config_(config),
      rendezvous_deadline_(start + config.rendezvous_timeout),
      roster_(SizeOf(config), config.lease, start),
      layouts_(config.world_size, roster_.size().workers),
      steps_(config.world_size) {
  reason_ = roster_.Count();
}

absl::Status Membership::CheckOpen() const {
  if (!IsOver()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the run is over: ", reason_));
}

Outcome Membership::OnHello(SessionId session, const v1::Hello& hello, absl::Time now) {
  if (roster_.Find(session) != nullptr) return OnNonsense(session, "a second Hello", now);
  absl::Status status = CheckOpen();
  if (status.ok()) status = CheckHello(hello, roster_, settings_);
  if (!status.ok()) {
    return Refuse(session, absl::StrCat("a worker at ", Shortened(hello.address(), kMostAddress)),
                  status);
  }
  settings_ = SettingsOf(hello);
  roster_.Add(WorkerOf(session, hello, now));
  return Welcome(Incarnation(hello.incarnation()));
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
  outcome.why = absl::StrCat(Describe(*roster_.Find(incarnation)), " joined; ", reason_);
  FormIfComplete(&outcome);
  return outcome;
}

void Membership::FormIfComplete(Outcome* outcome) {
  if (!roster_.HasAllWorkers() || !roster_.HasAllAggregators()) return;
  state_ = State::kRunning;
  const auto workers = roster_.Workers();
  threads_ = ThreadsFor(std::as_const(roster_).Workers());
  seals_ = config_.recover && workers.size() > 1 && config_.aggregators == 0 &&
           std::all_of(workers.begin(), workers.end(),
                       [](const Participant* worker) { return worker->cannot_recover.empty(); });
  SendViewToAll(outcome);
  AppendSentence(absl::StrCat("the run begins with generation ", generation_.value()),
                 &outcome->why);
}

void Membership::SendViewToAll(Outcome* outcome) {
  ++generation_;
  View view = MakeView();
  outcome->actions.emplace_back(FormRun{view});
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
  for (const Participant* member : roster_.All()) {
    if (member->share) {
      view.aggregators.push_back(member->address);
    } else {
      view.members.push_back({member->incarnation, member->address, member->ranks});
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
  if (Hear(session, "Heartbeat", now, &outcome) == nullptr) return outcome;
  if (heartbeat.sent() > 0) outcome.actions.emplace_back(SendEcho{session, heartbeat.sent()});
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
    OnLoss(worker, agreed.status().message(), &outcome);
    return outcome;
  }
  if (*agreed) {
    Agree(LayoutId(static_cast<int>(layout.id())), &outcome);
  } else {
    CheckFinished(&outcome);
  }
  return outcome;
}

void Membership::Agree(LayoutId layout, Outcome* outcome) {
  const std::vector<BucketSpec>& buckets = layouts_.BucketsOf(layout);
  outcome->actions.emplace_back(AgreeLayout{layout, buckets});
  std::vector<const Participant*> members = std::as_const(roster_).All();
  std::reverse(members.begin(), members.end());  // aggregators first: workers send to them
  for (const Participant* member : members) {
    if (!member->session) continue;
    SendLayoutAgreed send{*member->session, layout, {}};
    if (member->share) send.buckets = buckets;
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
  steps_.Take(done);
  outcome.actions.emplace_back(TakeStep{done});
  if (const Step first_open = steps_.FirstOpen(); step_ < first_open) {
    step_ = first_open;
    outcome.actions.emplace_back(EnterStep{step_});
  }
  return outcome;
}

Outcome Membership::OnReady(SessionId session, const v1::Ready& ready, absl::Time now) {
  Outcome outcome;
  Participant* worker = HearWorker(session, "Ready", now, &outcome);
  if (worker == nullptr || ready.generation() != generation_.value()) return outcome;
  if (!seals_ || through_ || worker->ready || ready.step() != open_.value()) {
    return OnNonsense(
        session,
        absl::StrCat("Ready for step ", ready.step(), ", expected ", open_.value(), " once"), now);
  }
  worker->ready = true;
  through_ = ready.last();
  SealIfAllAreReady(&outcome);
  return outcome;
}

void Membership::SealIfAllAreReady(Outcome* outcome) {
  const std::vector<Participant*> workers = roster_.Workers();
  const auto is_ready = [](const Participant* worker) { return worker->ready; };
  if (!std::all_of(workers.begin(), workers.end(), is_ready)) {
    through_ = false;
    return;
  }
  for (Participant* worker : workers) {
    worker->ready = false;
    outcome->actions.emplace_back(SendSealed{*worker->session, open_});
  }
  ++open_;
}

Outcome Membership::OnSuspect(SessionId session, const v1::Suspect& suspect, absl::Time now) {
  Outcome outcome;
  const Participant* by = HearWorker(session, "Suspect", now, &outcome);
  if (by == nullptr) return outcome;
  const Incarnation incarnation(suspect.incarnation());
  // Who went on to another view broke off with those that have yet to hear of it.
  const bool is_past = seals_ && suspect.generation() != generation_.value();
  if (is_past || roster_.WasRemoved(incarnation)) return outcome;
  const Participant* worker = roster_.Find(incarnation);
  if (worker == nullptr || worker->share) {
    return OnNonsense(
        session, absl::StrCat("Suspect of ", suspect.incarnation(), ", which is no worker"), now);
  }
  outcome.why = absl::StrCat(Describe(*by), " suspects ", Describe(*worker), " in step ",
                             suspect.step(), ": ", Shortened(suspect.cause(), kMostCause));
  if (suspicion_) return outcome;
  suspicion_ = Suspicion{worker->incarnation,
                         absl::StrCat(NameOf(*by), " got no answer from it: ", suspect.cause()),
                         now + config_.suspect_grace};
  return outcome;
}

Outcome Membership::OnLeave(SessionId session, const v1::Leave& leave, absl::Time now) {
  Outcome outcome;
  Participant* member = Hear(session, "Leave", now, &outcome);
  if (member == nullptr) return outcome;
  EndSession(member, absl::OkStatus(), &outcome);
  if (leave.finished() && state_ == State::kRunning && !member->share) {
    Finish(member, &outcome);
    return outcome;
  }
  const std::string reason = leave.reason().empty() ? "no reason given" : leave.reason();
  OnLoss(member, absl::StrCat("it left: ", reason), &outcome);
  return outcome;
}

Outcome Membership::OnNonsense(SessionId session, absl::string_view what, absl::Time) {
  const absl::Status status = absl::InvalidArgumentError(absl::StrCat("session: got ", what));
  Participant* member = roster_.Find(session);
  if (member == nullptr) {
    return {{CloseSession{session, status}}, absl::StrCat("closed a session: got ", what)};
  }
  Outcome outcome;
  EndSession(member, status, &outcome);
  OnLoss(member, absl::StrCat("it broke the protocol: ", what), &outcome);
  return outcome;
}

Outcome Membership::OnStreamClosed(SessionId session, absl::string_view cause, absl::Time) {
  Outcome outcome;
  Participant* member = roster_.Find(session);
  if (member == nullptr) return outcome;
  member->session.reset();
  OnLoss(member, cause, &outcome);
  return outcome;
}

Outcome Membership::OnTick(absl::Time now) {
  Outcome outcome;
  roster_.OnTick(now);
  CheckLeases(now, &outcome);
  CheckSuspicion(now, &outcome);
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

void Membership::OnLoss(Participant* member, absl::string_view long_cause, Outcome* outcome) {
  const std::string cause = Shortened(long_cause, kMostCause);
  if (state_ == State::kWaiting) return FreePlace(*member, cause, outcome);
  member->standing = Standing::kLost;
  if (suspicion_ && suspicion_->suspect == member->incarnation) suspicion_.reset();
  TellOfLoss(*member, cause, outcome);
  const std::string why_not = WhyNotWithout(*member);
  if (why_not.empty()) return GoOnWithout(member, cause, outcome);
  Fail(absl::AbortedError(absl::StrCat(
           Was(*member), " lost in step ", steps_.FirstOpen(member->ranks).value(), ": ", cause,
           config_.recover && !member->share ? absl::StrCat("; ", why_not) : "")),
       outcome);
}

void Membership::TellOfLoss(const Participant& member, absl::string_view cause,
                            Outcome* outcome) const {
  if (member.share) return;
  outcome->actions.emplace_back(
      TellLoss{member.ranks, steps_.FirstOpen(member.ranks), std::string(cause)});
}

std::string Membership::WhyNotWithout(const Participant& lost) const {
  const auto workers = roster_.Workers();
  for (const Participant* worker : workers) {
    if (!worker->cannot_recover.empty()) {
      return absl::StrCat("the run cannot go on without it: ", worker->cannot_recover);
    }
  }
  if (!seals_ || lost.share) return "the run cannot go on without it";
  if (!layouts_.AllAgreed()) return "it had not said yet what it exchanges";
  const size_t left = workers.size() - 1;
  const auto least = static_cast<size_t>(std::max(1, config_.min_workers));
  if (left >= least) return "";
  return absl::StrCat(left, left == 1 ? " worker is" : " workers are", " left, expected ", least,
                      " or more to go on");
}

// Who is through needs nobody; else the others adopt its ranks.
void Membership::GoOnWithout(Participant* lost, absl::string_view cause, Outcome* outcome) {
  const std::string who = Was(*lost);
  const std::string ranks = NameOf(*lost);
  if (lost->session) {
    const std::string reason =
        absl::StrCat("lost: ", cause, "; the run goes on without this worker");
    outcome->actions.emplace_back(SendAbort{*lost->session, reason});
    EndSession(lost, absl::AbortedError(reason), outcome);
  }
  if (through_) {
    AppendSentence(absl::StrCat(who, " lost after the last step: ", cause), &outcome->why);
    return FinishIfAllHave(outcome);
  }
  roster_.Evict(lost->incarnation);
  suspicion_.reset();  // it was of the view before
  for (Participant* worker : roster_.Workers()) worker->ready = false;
  SendViewToAll(outcome);
  for (size_t id = 0; id < layouts_.agreed(); ++id) {
    const LayoutId layout(static_cast<int>(id));
    outcome->actions.emplace_back(AgreeLayout{layout, layouts_.BucketsOf(layout)});
  }
  AppendSentence(absl::StrCat(who, " lost in step ", open_.value(), ": ", cause, "; ", ranks,
                              " is carried on by others, generation ", generation_.value(),
                              " begins with step ", open_.value()),
                 &outcome->why);
}

void Membership::FreePlace(const Participant& member, absl::string_view cause, Outcome* outcome) {
  const std::string who = Describe(member);
  const absl::string_view is = member.ranks.size() > 1 ? " are" : " is";
  roster_.Remove(member.incarnation);
  if (roster_.Workers().empty()) settings_.clear();
  reason_ = roster_.Count();
  AppendSentence(absl::StrCat(who, is, " gone before the run began, its place is free: ", cause,
                              "; ", reason_),
                 &outcome->why);
}

void Membership::Finish(Participant* worker, Outcome* outcome) {
  worker->standing = Standing::kFinished;
  outcome->why = absl::StrCat(Describe(*worker), " finished after ",
                              steps_.FirstOpen(worker->ranks).value(), " steps");
  CheckFinished(outcome);
  FinishIfAllHave(outcome);
}

// All that are there still.
void Membership::FinishIfAllHave(Outcome* outcome) {
  const auto workers = roster_.Workers();
  const bool all = std::none_of(workers.begin(), workers.end(), [](const Participant* worker) {
    return worker->standing == Standing::kRunning;
  });
  if (IsOver() || !all) return;
  state_ = State::kFinished;
  suspicion_.reset();
  reason_ = "all ranks finished";
  AppendSentence(reason_, &outcome->why);
  for (Participant* member : roster_.All()) {
    if (!member->session) continue;
    outcome->actions.emplace_back(SendFinish{*member->session});
    EndSession(member, absl::OkStatus(), outcome);
  }
  outcome->actions.emplace_back(EndRun{absl::OkStatus()});
}

void Membership::Fail(const absl::Status& status, Outcome* outcome) {
  state_ = State::kAborted;
  suspicion_.reset();
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

void Membership::CheckLeases(absl::Time now, Outcome* outcome) {
  const std::string cause = absl::StrCat("it was silent for ", InSeconds(config_.lease));
  for (Incarnation incarnation : roster_.Silent(now)) {
    Participant* member = roster_.Find(incarnation);
    if (member == nullptr) continue;  // evicted with one before it
    if (state_ == State::kWaiting) {
      EndSession(member, absl::DeadlineExceededError(cause), outcome);
    }
    OnLoss(member, cause, outcome);
    if (state_ == State::kAborted) return;
  }
}

void Membership::CheckSuspicion(absl::Time now, Outcome* outcome) {
  if (!suspicion_ || now < suspicion_->deadline) return;
  const Suspicion suspicion = *suspicion_;
  suspicion_.reset();
  OnLoss(roster_.Find(suspicion.suspect), suspicion.cause, outcome);
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
  reply.set_state(kNames[static_cast<int>(state_)]);
  reply.set_reason(reason_);
  for (v1::RankStatus& rank : RankStatuses(roster_, steps_, now)) {
    *reply.add_ranks() = std::move(rank);
  }
  reply.mutable_settings()->insert(settings_.begin(), settings_.end());
  return reply;
}

}  // namespace gradwire
