#include "coordinator/membership/membership_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_util.h"
#include "common/rpc/caller.h"
#include "common/wire/protocol.h"

namespace gradwire {
namespace {

spdlog::level::level_enum LevelOf(const Outcome& outcome) {
  auto level = outcome.warns ? spdlog::level::warn : spdlog::level::info;
  for (const Action& action : outcome.actions) {
    const auto* close = std::get_if<CloseSession>(&action);
    const auto* end = std::get_if<EndRun>(&action);
    if (end != nullptr && !end->status.ok()) return spdlog::level::err;
    if (close != nullptr && !close->status.ok()) level = spdlog::level::warn;
    const bool warns = std::holds_alternative<TellStraggler>(action) ||
                       std::holds_alternative<PauseRun>(action) ||
                       std::holds_alternative<TellLoss>(action);
    if (warns) level = spdlog::level::warn;
  }
  return level;
}

// A message of another protocol is refused for that reason; it may have no checksum.
bool IsOfAnotherProtocol(const v1::WorkerMessage& message) {
  if (message.has_hello()) return message.hello().protocol() != kProtocolVersion;
  return message.has_offer() && message.offer().protocol() != kProtocolVersion;
}

}  // namespace

MembershipService::MembershipService(const MembershipConfig& config, RunListener* listener,
                                     std::string log_prefix)
    : lease_(config.lease),
      most_silent_(static_cast<size_t>(16 + 2 * (config.world_size + config.aggregators))),
      listener_(listener),
      log_prefix_(std::move(log_prefix)),
      membership_(config, SteadyNow()) {
  ticker_ = std::thread([this] { RunTicker(); });
}

MembershipService::~MembershipService() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  ticker_.join();
}

grpc::Status MembershipService::Session(grpc::ServerContext* context, Stream* stream) {
  const SessionId id = Open(context, stream);
  v1::WorkerMessage message;
  for (uint64_t number = 0; !Ended(id) && stream->Read(&message); ++number) {
    OnMessage(id, TakeChecksum(number, &message), message);
  }
  return ToGrpc(Close(id, context->IsCancelled()));
}

v1::StatusReply MembershipService::Status() const {
  MutexLock lock(&mutex_);
  return membership_.Status(SteadyNow());
}

void MembershipService::Stop(absl::string_view reason, absl::Duration grace) {
  const absl::Time deadline = SteadyNow() + grace;
  MutexLock lock(&mutex_);
  Enqueue(membership_.OnShutdown(reason));
  Drain();
  while (!sessions_.empty() && !changed_.WaitWithDeadline(&mutex_, deadline)) {
  }
}

void MembershipService::RequestState() {
  MutexLock lock(&mutex_);
  Enqueue(membership_.OnSaveRequest());
  Drain();
}

void MembershipService::Saved(Step step, Generation generation, bool written) {
  MutexLock lock(&mutex_);
  Enqueue(membership_.OnSaved(step, generation, written));
  Drain();
}

SessionId MembershipService::Open(grpc::ServerContext* context, Stream* stream) {
  MutexLock lock(&mutex_);
  MakeRoom();
  ++last_id_;
  OpenSession& session = sessions_[last_id_];
  session.context = context;
  session.stream = stream;
  session.opened_at = SteadyNow();
  return last_id_;
}

void MembershipService::MakeRoom() {
  size_t silent = 0;
  OpenSession* oldest = nullptr;
  for (auto& [id, session] : sessions_) {
    if (session.heard || session.end) continue;
    ++silent;
    if (oldest == nullptr) oldest = &session;
  }
  if (silent < most_silent_) return;
  Dismiss(oldest, absl::ResourceExhaustedError(
                      absl::StrCat("too many sessions: ", silent, " have sent no message yet")));
}

void MembershipService::Cancel(OpenSession* session, std::string fault) {
  session->fault = std::move(fault);
  session->context->TryCancel();
}

void MembershipService::Dismiss(OpenSession* session, const absl::Status& status) {
  session->end = status;
  session->ended_at = SteadyNow();
  session->context->TryCancel();
}

bool MembershipService::Ended(SessionId id) const {
  MutexLock lock(&mutex_);
  return sessions_.at(id).end.has_value();
}

void MembershipService::OnMessage(SessionId id, const absl::Status& intact,
                                  const v1::WorkerMessage& message) {
  MutexLock lock(&mutex_);
  OpenSession& session = sessions_.at(id);
  if (session.end) return;
  const bool is_first = !std::exchange(session.heard, true);
  if (!intact.ok() && !IsOfAnotherProtocol(message)) return OnBroken(id, intact);
  Enqueue(Judge(id, message, is_first));
  session.acting = true;
  Drain();
  session.acting = false;
}

void MembershipService::OnBroken(SessionId id, const absl::Status& why) {
  OpenSession& session = sessions_.at(id);
  session.end = why;
  session.ended_at = SteadyNow();
  Outcome outcome = membership_.OnStreamClosed(id, why.message(), session.ended_at);
  if (outcome.why.empty()) outcome.why = absl::StrCat("closed a session: ", why.message());
  Enqueue(outcome);
  Drain();
}

absl::Status MembershipService::CheckSender(SessionId id, const v1::WorkerMessage& message) const {
  const grpc::ServerContext& context = *sessions_.at(id).context;
  if (message.has_hello()) return CheckHost(context, message.hello().address());
  if (message.has_offer()) return CheckHost(context, message.offer().address());
  return absl::OkStatus();
}

Outcome MembershipService::Judge(SessionId id, const v1::WorkerMessage& message, bool is_first) {
  const absl::Time now = SteadyNow();
  // Membership handles a later Hello: the session may be that of a member, which is then lost.
  const absl::Status host = is_first ? CheckSender(id, message) : absl::OkStatus();
  if (!host.ok()) {
    return {{CloseSession{id, host}}, absl::StrCat("refused a member: ", host.message())};
  }
  return membership_.OnMessage(id, message, now);
}

absl::Status MembershipService::Close(SessionId id, bool broke) {
  MutexLock lock(&mutex_);
  OpenSession& session = sessions_.at(id);
  if (!session.end) {
    session.end = absl::OkStatus();
    const std::string cause = !session.fault.empty() ? session.fault
                              : broke                ? "its session stream broke"
                                                     : "it closed its session without leaving";
    Enqueue(membership_.OnStreamClosed(id, cause, SteadyNow()));
    Drain();
  }
  while (session.pending > 0) changed_.Wait(&mutex_);
  EndWriter(&session);
  const absl::Status end = *session.end;
  sessions_.erase(id);
  changed_.NotifyAll();
  return end;
}

void MembershipService::Enqueue(const Outcome& outcome) {
  if (!outcome.why.empty()) {
    queue_.push_back([level = LevelOf(outcome), why = absl::StrCat(log_prefix_, outcome.why)] {
      spdlog::log(level, "{}", why);
    });
  }
  for (const Action& action : outcome.actions) {
    // Named, because the lock analysis does not look into lambdas.
    std::visit([this](const auto& a) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { Enact(a); }, action);
  }
}

void MembershipService::EnqueueWrite(SessionId id, v1::CoordinatorMessage message) {
  OpenSession& session = sessions_.at(id);
  ++session.pending;
  queue_.push_back([this, &session, message = std::move(message)]() mutable {
    MutexLock lock(&mutex_);
    if (message.has_view() && view_failed_) {
      --session.pending;
      return changed_.NotifyAll();
    }
    Post(&session, std::move(message));
  });
}

void MembershipService::Post(OpenSession* session, v1::CoordinatorMessage message) {
  if (session->waiting.size() >= kMostWaiting) {
    --session->pending;
    changed_.NotifyAll();
    return Cancel(session, absl::StrCat("it left ", kMostWaiting, " messages unread"));
  }
  if (session->waiting.empty()) session->writing_since = SteadyNow();
  session->waiting.push_back(std::move(message));
  if (!session->writer.joinable()) session->writer = std::thread([=] { WriteAll(session); });
  session->posted.NotifyAll();
}

void MembershipService::WriteAll(OpenSession* session) {
  uint64_t number = 0;
  MutexLock lock(&mutex_);
  while (true) {
    while (session->waiting.empty() && !session->closing) session->posted.Wait(&mutex_);
    if (session->waiting.empty()) return;
    v1::CoordinatorMessage& message = session->waiting.front();
    mutex_.Unlock();
    SetChecksum(number++, &message);
    // A failed write needs no handling here: the stream is broken, and its Read reports that.
    session->stream->Write(message);
    mutex_.Lock();
    session->waiting.pop_front();
    session->writing_since = SteadyNow();
    --session->pending;
    changed_.NotifyAll();
  }
}

void MembershipService::EndWriter(OpenSession* session) {
  session->closing = true;
  session->posted.NotifyAll();
  if (!session->writer.joinable()) return;
  mutex_.Unlock();
  session->writer.join();
  mutex_.Lock();
}

void MembershipService::AwaitWriters() {
  const absl::Time deadline = SteadyNow() + kCloseGrace;
  MutexLock lock(&mutex_);
  const auto is_busy = [](const auto& session) { return !session.second.waiting.empty(); };
  while (std::any_of(sessions_.begin(), sessions_.end(), is_busy)) {
    if (changed_.WaitWithDeadline(&mutex_, deadline)) return;
  }
}

void MembershipService::Enact(const FormRun& form) {
  queue_.push_back([this, form] {
    const absl::Status begun = listener_->On(form);
    if (begun.ok()) return;
    MutexLock lock(&mutex_);
    view_failed_ = true;
    Enqueue(membership_.OnShutdown(begun.message()));
  });
}

void MembershipService::Enact(const SendView& send) {
  v1::CoordinatorMessage message;
  *message.mutable_view() = ToProto(send.view);
  EnqueueWrite(send.session, std::move(message));
}

void MembershipService::Enact(const SendSealed& send) {
  v1::CoordinatorMessage message;
  message.mutable_sealed()->set_step(send.step.value());
  message.mutable_sealed()->set_generation(send.generation.value());
  EnqueueWrite(send.session, std::move(message));
}

void MembershipService::Enact(const SendSave& send) {
  v1::CoordinatorMessage message;
  message.mutable_save()->set_step(send.step.value());
  EnqueueWrite(send.session, std::move(message));
}

void MembershipService::Enact(const SendSaved& send) {
  v1::CoordinatorMessage message;
  message.mutable_saved()->set_step(send.step.value());
  message.mutable_saved()->set_generation(send.generation.value());
  message.mutable_saved()->set_written(send.written);
  EnqueueWrite(send.session, std::move(message));
}

void MembershipService::Enact(const SendLayoutAgreed& send) {
  v1::CoordinatorMessage message;
  message.mutable_layout_agreed()->set_id(send.layout.value());
  *message.mutable_layout_agreed()->mutable_buckets() = ToProto({}, send.buckets).buckets();
  if (!send.serving.optimizer().empty()) {
    *message.mutable_layout_agreed()->mutable_serving() = send.serving;
  }
  EnqueueWrite(send.session, std::move(message));
}

void MembershipService::Enact(const SendPaused& send) {
  v1::CoordinatorMessage message;
  message.mutable_paused()->set_reason(send.reason);
  EnqueueWrite(send.session, std::move(message));
}

void MembershipService::Enact(const SendAbort& send) {
  v1::CoordinatorMessage message;
  message.mutable_abort()->set_reason(send.reason);
  EnqueueWrite(send.session, std::move(message));
}

void MembershipService::Enact(const SendFinish& send) {
  v1::CoordinatorMessage message;
  message.mutable_finish();
  EnqueueWrite(send.session, std::move(message));
}

void MembershipService::Enact(const SendEcho& send) {
  v1::CoordinatorMessage message;
  message.mutable_echo()->set_sent(send.sent);
  message.mutable_echo()->set_received(UnixSeconds(absl::Now()));
  EnqueueWrite(send.session, std::move(message));
}

void MembershipService::Enact(const CloseSession& close) {
  OpenSession& session = sessions_.at(close.session);
  session.end = close.status;
  session.ended_at = SteadyNow();
}

void MembershipService::Enact(const EndRun& end) {
  queue_.push_back([this, end] {
    AwaitWriters();
    listener_->On(end);
  });
}

void MembershipService::Drain() {
  if (draining_) return;
  draining_ = true;
  while (!queue_.empty()) {
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    mutex_.Unlock();
    work();
    mutex_.Lock();
  }
  draining_ = false;
}

void MembershipService::RunTicker() {
  MutexLock lock(&mutex_);
  absl::Time last = SteadyNow();
  while (!stopping_) {
    const absl::Time now = SteadyNow();
    const absl::Duration still = StoodStill(now - std::exchange(last, now));
    for (auto& [id, session] : sessions_) {
      session.Forgive(still, now);
      if (session.acting) membership_.OnUnread(id, now);
    }
    Enqueue(membership_.OnTick(now));
    Drain();
    CancelOverdue(now);
    if (!stopping_) changed_.WaitWithDeadline(&mutex_, SteadyNow() + kTick);
  }
}

void MembershipService::CancelOverdue(absl::Time now) {
  for (auto& [id, session] : sessions_) {
    if (session.end) {
      if (session.IsHeldUp()) session.ended_at = now;
      if (now - session.ended_at > kCloseGrace) session.context->TryCancel();
    } else if (!session.heard && now - session.opened_at > kFirstMessage) {
      Dismiss(&session, absl::DeadlineExceededError("session: got nothing, expected Hello"));
    } else if (!session.waiting.empty() && now - session.writing_since > lease_) {
      Cancel(&session, absl::StrCat("it read no message for ", absl::FormatDuration(lease_)));
    }
  }
}

}  // namespace gradwire
