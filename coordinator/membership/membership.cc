#include "coordinator/membership/membership.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/address.h"

namespace gradwire {
namespace {

// A gap between ticks beyond this means that the coordinator itself was
// paused (stopped, or its host asleep), not that all workers fell silent.
constexpr absl::Duration kPause = absl::Seconds(1);

std::string InSeconds(absl::Duration duration) {
  return absl::StrCat(absl::ToDoubleSeconds(duration), " s");
}

}  // namespace

Membership::Membership(const MembershipConfig& config, absl::Time start)
    : config_(config), rendezvous_deadline_(start + config.rendezvous_timeout), last_tick_(start) {
  UpdateReason();
}

void Membership::UpdateReason() {
  reason_ = absl::StrCat(workers_.size(), " of ", config_.world_size, " workers");
  if (config_.aggregators > 0) {
    absl::StrAppend(&reason_, " and ", aggregators_.size(), " of ", config_.aggregators,
                    " aggregators");
  }
  absl::StrAppend(&reason_, " are there");
}

Outcome Membership::OnHello(SessionId session, const v1::Hello& hello, absl::Time now) {
  if (Find(session) || FindAggregator(session)) {
    return OnNonsense(session, "a second Hello", now);
  }
  Outcome outcome;
  if (absl::Status status = CheckHello(hello); !status.ok()) {
    outcome.why = absl::StrCat("refused a worker at ", hello.address(), ": ", status.message());
    outcome.actions.emplace_back(CloseSession{session, status});
    return outcome;
  }
  const Rank rank = Admit(session, hello, now);
  UpdateReason();
  outcome.why = absl::StrCat(Describe(rank), " joined; ", reason_);
  FormIfComplete(&outcome);
  return outcome;
}

Outcome Membership::OnOffer(SessionId session, const v1::Offer& offer, absl::Time now) {
  if (Find(session) || FindAggregator(session)) return OnNonsense(session, "a second Offer", now);
  Outcome outcome;
  if (absl::Status status = CheckOffer(offer); !status.ok()) {
    outcome.why =
        absl::StrCat("refused an aggregator at ", offer.address(), ": ", status.message());
    outcome.actions.emplace_back(CloseSession{session, status});
    return outcome;
  }
  aggregators_.push_back({session, Incarnation(offer.incarnation()), offer.address(), now, {}});
  UpdateReason();
  outcome.why = absl::StrCat(DescribeAggregator(aggregators_.size() - 1), " joined; ", reason_);
  FormIfComplete(&outcome);
  return outcome;
}

absl::Status Membership::CheckOffer(const v1::Offer& offer) const {
  const Incarnation incarnation(offer.incarnation());
  if (absl::Status status = CheckNewcomer(incarnation); !status.ok()) return status;
  if (static_cast<int>(aggregators_.size()) == config_.aggregators) {
    return absl::FailedPreconditionError(
        absl::StrCat("the run has all its aggregators: got one more, expected ",
                     config_.aggregators, " (--aggregators of the coordinator)"));
  }
  for (size_t i = 0; i < aggregators_.size(); ++i) {
    if (aggregators_[i].incarnation != incarnation) continue;
    return absl::AlreadyExistsError(
        absl::StrCat("incarnation ", incarnation.value(), " is ", DescribeAggregator(i)));
  }
  if (absl::StatusOr<HostPort> address = ParseHostPort(offer.address()); !address.ok()) {
    return address.status();
  }
  return CheckReachOf(offer.address());
}

absl::Status Membership::CheckNewcomer(Incarnation incarnation) const {
  if (state_ == State::kFinished || state_ == State::kAborted) {
    return absl::FailedPreconditionError(absl::StrCat("the run is over: ", reason_));
  }
  if (evicted_.count(incarnation) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("incarnation ", incarnation.value(),
                                                    " has left this run; start the worker anew"));
}

absl::Status Membership::CheckHello(const v1::Hello& hello) const {
  if (absl::Status status = CheckPlace(hello); !status.ok()) return status;
  if (absl::Status status = CheckNeighbours(hello); !status.ok()) return status;
  return terms_ ? CheckTerms(hello, *terms_) : absl::OkStatus();
}

absl::Status Membership::CheckPlace(const v1::Hello& hello) const {
  absl::Status newcomer = CheckNewcomer(Incarnation(hello.incarnation()));
  if (!newcomer.ok()) return newcomer;
  if (absl::Status status = CheckForm(hello, config_.world_size); !status.ok()) return status;
  // It may have all workers and still wait for aggregators.
  if (static_cast<int>(workers_.size()) == config_.world_size) {
    return absl::FailedPreconditionError(
        absl::StrCat("the run has all its workers; its world size is ", config_.world_size));
  }
  return absl::OkStatus();
}

absl::Status Membership::CheckNeighbours(const v1::Hello& hello) const {
  for (const auto& [rank, worker] : workers_) {
    if (worker.incarnation == Incarnation(hello.incarnation())) {
      return absl::AlreadyExistsError(
          absl::StrCat("incarnation ", hello.incarnation(), " is ", Describe(rank)));
    }
    if (hello.has_rank() && rank == Rank(static_cast<int>(hello.rank()))) {
      return absl::AlreadyExistsError(
          absl::StrCat("rank ", rank.value(), " is taken by ", worker.address));
    }
  }
  return CheckReachOf(hello.address());
}

absl::Status Membership::CheckReachOf(const std::string& address) const {
  // All members were compared with the first when they came.
  if (!workers_.empty()) {
    const auto& [rank, worker] = *workers_.begin();
    return CheckReach(address, worker.address, absl::StrCat("rank ", rank.value()));
  }
  if (aggregators_.empty()) return absl::OkStatus();
  return CheckReach(address, aggregators_.front().address, "aggregator 0");
}

Rank Membership::Admit(SessionId session, const v1::Hello& hello, absl::Time now) {
  const Rank rank = hello.has_rank() ? Rank(static_cast<int>(hello.rank())) : LowestFree();
  Worker worker{session, Incarnation(hello.incarnation()), hello.address(), now, {}};
  worker.progress.set_rank(rank.value());
  worker.progress.set_address(hello.address());
  worker.progress.set_metrics(hello.metrics());
  worker.progress.set_state("running");
  workers_.emplace(rank, std::move(worker));
  if (!terms_) terms_ = TermsOf(hello, absl::StrCat("rank ", rank.value()));
  return rank;
}

Rank Membership::LowestFree() const {
  Rank rank(0);
  while (workers_.count(rank) > 0) ++rank;
  return rank;
}

std::optional<Rank> Membership::Find(SessionId session) const {
  for (const auto& [rank, worker] : workers_) {
    if (worker.session == session) return rank;
  }
  return std::nullopt;
}

std::optional<size_t> Membership::FindAggregator(SessionId session) const {
  for (size_t i = 0; i < aggregators_.size(); ++i) {
    if (aggregators_[i].session == session) return i;
  }
  return std::nullopt;
}

Membership::Worker* Membership::Hear(SessionId session, absl::string_view what, absl::Time now,
                                     Outcome* outcome) {
  const std::optional<Rank> rank = Find(session);
  if (!rank) {
    *outcome = OnNonsense(session, absl::StrCat(what, " before Hello"), now);
    return nullptr;
  }
  Worker& worker = workers_.at(*rank);
  worker.last_heard = now;
  return &worker;
}

Outcome Membership::OnHeartbeat(SessionId session, const v1::Heartbeat& heartbeat, absl::Time now) {
  Outcome outcome;
  if (const std::optional<size_t> aggregator = FindAggregator(session)) {
    aggregators_[*aggregator].last_heard = now;
  } else if (Hear(session, "Heartbeat", now, &outcome) == nullptr) {
    return outcome;
  }
  if (heartbeat.sent() > 0) outcome.actions.emplace_back(SendEcho{session, heartbeat.sent()});
  return outcome;
}

Outcome Membership::OnStepDone(SessionId session, const v1::StepDone& done, absl::Time now) {
  Outcome outcome;
  Worker* worker = Hear(session, "StepDone", now, &outcome);
  if (worker == nullptr) return outcome;
  v1::RankStatus& progress = worker->progress;
  progress.set_steps_done(std::max(progress.steps_done(), done.step() + 1));
  progress.set_loss(done.loss());
  progress.set_iteration_seconds(done.iteration_seconds());
  progress.set_communication_seconds(done.communication_seconds());
  progress.set_exposed_communication_seconds(done.exposed_communication_seconds());
  if (state_ != State::kRunning) return outcome;
  outcome.actions.emplace_back(TakeStep{Rank(static_cast<int>(progress.rank())), done});
  if (const Step slowest = SlowestStep(); step_ < slowest) {
    step_ = slowest;
    outcome.actions.emplace_back(EnterStep{step_});
  }
  return outcome;
}

Step Membership::SlowestStep() const {
  uint64_t steps_done = std::numeric_limits<uint64_t>::max();
  for (const auto& [rank, worker] : workers_) {
    steps_done = std::min(steps_done, worker.progress.steps_done());
  }
  return Step(steps_done);
}

Outcome Membership::OnSuspect(SessionId session, const v1::Suspect& suspect, absl::Time now) {
  Outcome outcome;
  const Worker* worker = Hear(session, "Suspect", now, &outcome);
  if (worker == nullptr) return outcome;
  const int by = static_cast<int>(worker->progress.rank());
  if (state_ != State::kRunning || suspect.rank() >= static_cast<uint32_t>(config_.world_size)) {
    return OnNonsense(session, absl::StrCat("Suspect of rank ", suspect.rank()), now);
  }
  const Rank rank(static_cast<int>(suspect.rank()));
  outcome.why = absl::StrCat(Describe(Rank(by)), " suspects ", Describe(rank), " in step ",
                             suspect.step(), ": ", suspect.cause());
  if (suspicion_) return outcome;
  suspicion_ =
      Suspicion{rank, absl::StrCat("rank ", by, " got no answer from it: ", suspect.cause()),
                now + config_.suspect_grace};
  return outcome;
}

Outcome Membership::OnLeave(SessionId session, const v1::Leave& leave, absl::Time now) {
  Outcome outcome;
  const std::string reason = leave.reason().empty() ? "no reason given" : leave.reason();
  if (const std::optional<size_t> aggregator = FindAggregator(session)) {
    EndSession(&aggregators_[*aggregator], absl::OkStatus(), &outcome);
    OnAggregatorLoss(*aggregator, absl::StrCat("it left: ", reason), &outcome);
    return outcome;
  }
  Worker* worker = Hear(session, "Leave", now, &outcome);
  if (worker == nullptr) return outcome;
  const Rank rank(static_cast<int>(worker->progress.rank()));
  EndSession(worker, absl::OkStatus(), &outcome);
  if (leave.finished() && state_ == State::kRunning) {
    Finish(rank, &outcome);
  } else {
    OnLoss(rank, absl::StrCat("it left: ", reason), &outcome);
  }
  return outcome;
}

Outcome Membership::OnNonsense(SessionId session, absl::string_view what, absl::Time) {
  Outcome outcome;
  const absl::Status status = absl::InvalidArgumentError(absl::StrCat("session: got ", what));
  const std::string cause = absl::StrCat("it broke the protocol: ", what);
  if (const std::optional<size_t> aggregator = FindAggregator(session)) {
    EndSession(&aggregators_[*aggregator], status, &outcome);
    OnAggregatorLoss(*aggregator, cause, &outcome);
    return outcome;
  }
  const std::optional<Rank> rank = Find(session);
  if (!rank) {
    outcome.actions.emplace_back(CloseSession{session, status});
    outcome.why = absl::StrCat("closed a session: got ", what);
    return outcome;
  }
  EndSession(&workers_.at(*rank), status, &outcome);
  OnLoss(*rank, cause, &outcome);
  return outcome;
}

Outcome Membership::OnStreamClosed(SessionId session, absl::string_view cause, absl::Time) {
  Outcome outcome;
  if (const std::optional<size_t> aggregator = FindAggregator(session)) {
    aggregators_[*aggregator].session.reset();
    OnAggregatorLoss(*aggregator, cause, &outcome);
    return outcome;
  }
  const std::optional<Rank> rank = Find(session);
  if (!rank) return outcome;
  workers_.at(*rank).session.reset();
  OnLoss(*rank, cause, &outcome);
  return outcome;
}

Outcome Membership::OnTick(absl::Time now) {
  Outcome outcome;
  ForgivePause(now);
  CheckLeases(now, &outcome);
  CheckAggregatorLeases(now, &outcome);
  CheckSuspicion(now, &outcome);
  if (state_ == State::kWaiting && now >= rendezvous_deadline_) {
    Fail(absl::DeadlineExceededError(MissingMessage()), &outcome);
  }
  return outcome;
}

Outcome Membership::OnShutdown(absl::string_view reason) {
  Outcome outcome;
  if (state_ == State::kWaiting || state_ == State::kRunning) {
    Fail(absl::AbortedError(reason), &outcome);
  }
  return outcome;
}

void Membership::FormIfComplete(Outcome* outcome) {
  if (static_cast<int>(workers_.size()) < config_.world_size ||
      static_cast<int>(aggregators_.size()) < config_.aggregators) {
    return;
  }
  state_ = State::kRunning;
  ++generation_;
  View view = MakeView();
  outcome->actions.emplace_back(FormRun{view, terms_->buckets});
  for (const auto& [rank, worker] : workers_) {
    view.rank = rank;
    outcome->actions.emplace_back(SendView{*worker.session, view});
  }
  view.rank = Rank(0);
  view.buckets = terms_->buckets;
  for (size_t i = 0; i < aggregators_.size(); ++i) {
    view.aggregator = static_cast<int>(i);
    outcome->actions.emplace_back(SendView{*aggregators_[i].session, view});
  }
  absl::StrAppend(&outcome->why, "; the run begins with generation ", generation_.value());
}

View Membership::MakeView() const {
  View view;
  view.run_id = config_.run_id;
  view.epoch = config_.epoch;
  view.generation = generation_;
  view.world_size = config_.world_size;
  view.chunk_bytes = config_.chunk_bytes;
  for (const auto& [rank, worker] : workers_) {
    view.members.push_back({worker.incarnation, worker.address, {rank}});
  }
  for (const Worker& aggregator : aggregators_) view.aggregators.push_back(aggregator.address);
  return view;
}

void Membership::OnLoss(Rank rank, absl::string_view cause, Outcome* outcome) {
  if (state_ == State::kWaiting) return FreeRank(rank, cause, outcome);
  v1::RankStatus& progress = workers_.at(rank).progress;
  progress.set_state("lost");
  outcome->actions.emplace_back(TellLoss{rank, Step(progress.steps_done()), std::string(cause)});
  Fail(absl::AbortedError(
           absl::StrCat(Describe(rank), " was lost in step ", progress.steps_done(), ": ", cause)),
       outcome);
}

void Membership::OnAggregatorLoss(size_t index, absl::string_view cause, Outcome* outcome) {
  const std::string who = DescribeAggregator(index);
  if (state_ != State::kWaiting) {
    return Fail(absl::AbortedError(
                    absl::StrCat(who, " was lost in step ", SlowestStep().value(), ": ", cause)),
                outcome);
  }
  evicted_.insert(aggregators_[index].incarnation);
  aggregators_.erase(aggregators_.begin() + index);
  UpdateReason();
  absl::StrAppend(&outcome->why, outcome->why.empty() ? "" : "; ", who,
                  " is gone before the run began: ", cause, "; ", reason_);
}

void Membership::FreeRank(Rank rank, absl::string_view cause, Outcome* outcome) {
  const std::string who = Describe(rank);
  evicted_.insert(workers_.at(rank).incarnation);
  workers_.erase(rank);
  if (workers_.empty()) terms_.reset();
  UpdateReason();
  absl::StrAppend(&outcome->why, outcome->why.empty() ? "" : "; ", who,
                  " is gone before the run began, its place is free: ", cause, "; ", reason_);
}

void Membership::Finish(Rank rank, Outcome* outcome) {
  workers_.at(rank).progress.set_state("finished");
  outcome->why = absl::StrCat(Describe(rank), " finished after ",
                              workers_.at(rank).progress.steps_done(), " steps");
  const bool all = std::all_of(workers_.begin(), workers_.end(),
                               [](const auto& entry) { return !entry.second.session; });
  if (!all) return;
  state_ = State::kFinished;
  suspicion_.reset();
  reason_ = "all ranks finished";
  absl::StrAppend(&outcome->why, "; ", reason_);
  for (Worker& aggregator : aggregators_) {
    outcome->actions.emplace_back(SendFinish{*aggregator.session});
    EndSession(&aggregator, absl::OkStatus(), outcome);
  }
  outcome->actions.emplace_back(EndRun{absl::OkStatus()});
}

void Membership::Fail(const absl::Status& status, Outcome* outcome) {
  state_ = State::kAborted;
  suspicion_.reset();
  reason_ = std::string(status.message());
  outcome->why = absl::StrCat("the run failed: ", reason_);
  auto abort = [this, outcome](Worker* member) {
    if (!member->session) return;
    outcome->actions.emplace_back(SendAbort{*member->session, reason_});
    EndSession(member, absl::AbortedError(reason_), outcome);
  };
  for (auto& [rank, worker] : workers_) abort(&worker);
  for (Worker& aggregator : aggregators_) abort(&aggregator);
  outcome->actions.emplace_back(EndRun{status});
}

void Membership::EndSession(Worker* worker, const absl::Status& status, Outcome* outcome) {
  outcome->actions.emplace_back(CloseSession{*worker->session, status});
  worker->session.reset();
}

void Membership::ForgivePause(absl::Time now) {
  const absl::Duration gap = now - last_tick_;
  last_tick_ = now;
  if (gap <= kPause) return;
  for (auto& [rank, worker] : workers_) worker.last_heard = std::min(now, worker.last_heard + gap);
  for (Worker& aggregator : aggregators_) {
    aggregator.last_heard = std::min(now, aggregator.last_heard + gap);
  }
}

void Membership::CheckLeases(absl::Time now, Outcome* outcome) {
  std::vector<Rank> silent;
  for (const auto& [rank, worker] : workers_) {
    if (worker.session && now - worker.last_heard > config_.lease) silent.push_back(rank);
  }
  const std::string cause = absl::StrCat("it was silent for ", InSeconds(config_.lease));
  for (Rank rank : silent) {
    if (state_ == State::kWaiting) {
      EndSession(&workers_.at(rank), absl::DeadlineExceededError(cause), outcome);
    }
    OnLoss(rank, cause, outcome);
    if (state_ == State::kAborted) return;
  }
}

void Membership::CheckAggregatorLeases(absl::Time now, Outcome* outcome) {
  const std::string cause = absl::StrCat("it was silent for ", InSeconds(config_.lease));
  for (size_t i = aggregators_.size(); i-- > 0;) {
    Worker& aggregator = aggregators_[i];
    if (!aggregator.session || now - aggregator.last_heard <= config_.lease) continue;
    if (state_ == State::kWaiting) {
      EndSession(&aggregator, absl::DeadlineExceededError(cause), outcome);
    }
    OnAggregatorLoss(i, cause, outcome);
    if (state_ == State::kAborted) return;
  }
}

void Membership::CheckSuspicion(absl::Time now, Outcome* outcome) {
  if (!suspicion_ || now < suspicion_->deadline) return;
  const Suspicion suspicion = *suspicion_;
  OnLoss(suspicion.suspect, suspicion.cause, outcome);
}

std::string Membership::Describe(Rank rank) const {
  return absl::StrCat("rank ", rank.value(), " (", workers_.at(rank).address, ")");
}

std::string Membership::DescribeAggregator(size_t index) const {
  return absl::StrCat("aggregator ", index, " (", aggregators_[index].address, ")");
}

std::string Membership::MissingMessage() const {
  std::vector<int> missing;
  for (int rank = 0; rank < config_.world_size; ++rank) {
    if (workers_.count(Rank(rank)) == 0) missing.push_back(rank);
  }
  std::string message =
      absl::StrCat(workers_.size(), " of ", config_.world_size, " workers came within ",
                   InSeconds(config_.rendezvous_timeout));
  if (!missing.empty()) {
    absl::StrAppend(&message, "; missing rank", missing.size() == 1 ? " " : "s ",
                    absl::StrJoin(missing, ", "));
  }
  if (static_cast<int>(aggregators_.size()) < config_.aggregators) {
    absl::StrAppend(&message, "; ", aggregators_.size(), " of ", config_.aggregators,
                    " aggregators came");
  }
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
  for (const auto& [rank, worker] : workers_) {
    v1::RankStatus* progress = reply.add_ranks();
    *progress = worker.progress;
    if (!worker.session || !now) continue;
    progress->set_silent_seconds(absl::ToDoubleSeconds(*now - worker.last_heard));
  }
  if (terms_) reply.mutable_settings()->insert(terms_->settings.begin(), terms_->settings.end());
  return reply;
}

}  // namespace gradwire
