#include "common/session/session.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/status_util.h"
#include "common/session/connect.h"
#include "common/wire/protocol.h"

namespace gradwire {
namespace {

constexpr absl::Duration kLeaveTimeout = absl::Seconds(2);
// Longer than a coordinator may stand still (kCoordinatorSilence) or wait for its disk.
constexpr absl::Duration kFinishTimeout = absl::Seconds(45);

// Returns true for codes that gRPC reports for a broken connection; the coordinator sends none of
// them.
bool IsBrokenStream(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::CANCELLED ||
         code == grpc::StatusCode::INTERNAL || code == grpc::StatusCode::UNKNOWN;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Open(SessionOptions options, OnAbort on_abort,
                                                       Listener listener) {
  auto channel = ConnectToCoordinator(options.coordinator, options.connect_timeout,
                                      options.cancelled, options.security);
  if (!channel.ok()) return channel.status();
  return absl::WrapUnique(new Session(std::move(options), std::move(on_abort), std::move(listener),
                                      *std::move(channel)));
}

Session::Session(SessionOptions options, OnAbort on_abort, Listener listener,
                 std::shared_ptr<grpc::Channel> channel)
    : options_(std::move(options)),
      on_abort_(std::move(on_abort)),
      listener_(std::move(listener)),
      stub_(v1::Membership::NewStub(channel)) {}

Session::~Session() {
  Cancel();
  if (reader_.joinable()) reader_.join();
  if (heartbeat_.joinable()) heartbeat_.join();
}

absl::StatusOr<View> Session::Join(v1::Hello hello) {
  hello.set_incarnation(options_.incarnation.value());
  hello.set_protocol(kProtocolVersion);
  hello.set_version(GRADWIRE_VERSION);
  v1::WorkerMessage message;
  *message.mutable_hello() = std::move(hello);
  return Enter(message);
}

absl::StatusOr<View> Session::Offer(const std::string& address, OnLayout on_layout) {
  on_layout_ = std::move(on_layout);
  v1::WorkerMessage message;
  v1::Offer* offer = message.mutable_offer();
  offer->set_incarnation(options_.incarnation.value());
  offer->set_address(address);
  offer->set_protocol(kProtocolVersion);
  offer->set_version(GRADWIRE_VERSION);
  return Enter(message);
}

absl::StatusOr<View> Session::Enter(const v1::WorkerMessage& message) {
  stream_ = stub_->Session(&context_);
  {
    MutexLock lock(&write_mutex_);
    half_closed_ = false;
  }
  {
    MutexLock lock(&mutex_);
    end_.reset();
  }
  Write(message);
  reader_ = std::thread([this] { Read(); });
  heartbeat_ = std::thread([this] { SendHeartbeats(); });

  MutexLock lock(&mutex_);
  while (!view_ && !end_) changed_.Wait(&mutex_);
  if (view_) return *view_;
  // A stream that ended with OK gave no View either.
  return end_->ok() ? absl::CancelledError("left before the run began") : *end_;
}

absl::StatusOr<LayoutId> Session::DeclareLayout(v1::Layout layout, absl::Duration timeout) {
  const LayoutId id = next_layout_;
  ++next_layout_;
  v1::WorkerMessage message;
  *message.mutable_layout() = std::move(layout);
  message.mutable_layout()->set_id(id.value());
  Write(message);
  return AwaitLayout(id, timeout);
}

absl::StatusOr<LayoutId> Session::AwaitLayout(LayoutId id, absl::Duration timeout) {
  const absl::Time deadline = SteadyNow() + timeout;
  MutexLock lock(&mutex_);
  while (not_agreed_ <= id && !end_) {
    if (changed_.WaitWithDeadline(&mutex_, deadline)) break;
  }
  if (id < not_agreed_) return id;
  if (!end_) {
    return absl::DeadlineExceededError(absl::StrCat(
        "coordinator ", options_.coordinator, " did not say within ",
        absl::ToDoubleSeconds(timeout), " s that all workers have declared layout ", id.value()));
  }
  return end_->ok() ? absl::CancelledError("left before the layout was agreed") : *end_;
}

void Session::ReportStep(const v1::StepDone& done) {
  v1::WorkerMessage message;
  *message.mutable_step_done() = done;
  Write(message);
}

void Session::ReportReady(const v1::Ready& ready) {
  v1::WorkerMessage message;
  *message.mutable_ready() = ready;
  Write(message);
}

void Session::ReportHolds(const v1::Holds& holds) {
  v1::WorkerMessage message;
  *message.mutable_holds() = holds;
  Write(message);
}

void Session::ReportSuspect(Incarnation suspect, Step step, const absl::Status& failure,
                            absl::Time at, Generation generation) {
  v1::WorkerMessage message;
  message.mutable_suspect()->set_incarnation(suspect.value());
  message.mutable_suspect()->set_step(step.value());
  message.mutable_suspect()->set_cause(std::string(failure.message()));
  message.mutable_suspect()->set_broke_off(absl::IsAborted(failure));
  message.mutable_suspect()->set_late(absl::IsDeadlineExceeded(failure));
  message.mutable_suspect()->set_at(UnixSeconds(ToTimeOfDay(at) + clock_offset()));
  message.mutable_suspect()->set_generation(generation.value());
  Write(message);
}

absl::Status Session::Leave(bool finished, absl::string_view reason, bool ends_run) {
  {
    MutexLock lock(&mutex_);
    if (left_) return absl::CancelledError("the session was left before");
    if (end_) return *end_;
    left_ = true;
  }
  v1::WorkerMessage message;
  message.mutable_leave()->set_finished(finished);
  message.mutable_leave()->set_reason(std::string(reason));
  message.mutable_leave()->set_ends_run(ends_run);
  Write(message);
  HalfClose();
  const absl::Duration timeout = finished ? kFinishTimeout : kLeaveTimeout;
  const absl::Time deadline = SteadyNow() + timeout;
  MutexLock lock(&mutex_);
  while (!end_ && !changed_.WaitWithDeadline(&mutex_, deadline)) {
  }
  if (end_) return *end_;
  return absl::DeadlineExceededError(absl::StrCat("coordinator ", options_.coordinator,
                                                  " did not confirm the end within ",
                                                  absl::ToInt64Seconds(timeout), " s"));
}

void Session::Cancel() { EndWith(absl::CancelledError("the session was cancelled")); }

void Session::EndWith(const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    if (!local_end_) local_end_ = status;
  }
  context_.TryCancel();
}

void Session::Read() {
  v1::CoordinatorMessage message;
  while (stream_->Read(&message)) OnMessage(&message);
  HalfClose();
  OnEnd(stream_->Finish());
}

void Session::OnMessage(v1::CoordinatorMessage* received) {
  if (absl::Status intact = TakeChecksum(received_++, received); !intact.ok()) {
    return EndWith(absl::UnavailableError(
        absl::StrCat("lost the coordinator ", options_.coordinator, ": ", intact.message())));
  }
  const v1::CoordinatorMessage& message = *received;
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kView:
      return OnView(message.view());
    case v1::CoordinatorMessage::kAbort:
      return OnAbortMessage(message.abort());
    case v1::CoordinatorMessage::kFinish:
      return HalfClose();
    case v1::CoordinatorMessage::kEcho:
      return OnEcho(message.echo());
    case v1::CoordinatorMessage::kLayoutAgreed:
      return OnLayoutAgreed(message.layout_agreed());
    case v1::CoordinatorMessage::kSealed:
      return OnSealed(message.sealed());
    case v1::CoordinatorMessage::kPaused:
      if (listener_.on_paused) listener_.on_paused(message.paused().reason());
      return;
    case v1::CoordinatorMessage::kSave:
      if (listener_.on_save) listener_.on_save(Step(message.save().step()));
      return;
    case v1::CoordinatorMessage::kSaved:
      if (listener_.on_saved) listener_.on_saved(message.saved());
      return;
    case v1::CoordinatorMessage::MESSAGE_NOT_SET:
      return EndWith(absl::InternalError("coordinator: got a message of unknown kind"));
  }
}

void Session::OnSealed(const v1::Sealed& sealed) {
  if (sealed.generation() != newest_.value()) {
    return EndWith(absl::InternalError(absl::StrCat("coordinator: got step ", sealed.step(),
                                                    " sealed in generation ", sealed.generation(),
                                                    ", expected generation ", newest_.value())));
  }
  if (listener_.on_sealed) listener_.on_sealed(Step(sealed.step()));
}

void Session::OnView(const v1::View& proto) {
  const absl::StatusOr<View> view = ViewFromProto(proto, options_.incarnation);
  if (!view.ok()) return EndWith(absl::InternalError(view.status().message()));
  newest_ = view->generation;
  {
    MutexLock lock(&mutex_);
    if (!view_) {
      view_ = *view;
      changed_.NotifyAll();
      return;
    }
  }
  if (listener_.on_new_view) listener_.on_new_view(*view);
}

void Session::OnLayoutAgreed(const v1::LayoutAgreed& agreed) {
  const LayoutId id(static_cast<int>(agreed.id()));
  LayoutId expected;
  {
    MutexLock lock(&mutex_);
    expected = not_agreed_;
    if (id == expected) ++not_agreed_;
    changed_.NotifyAll();
  }
  if (id != expected) {
    return EndWith(absl::InternalError(absl::StrCat("coordinator: got layout ", id.value(),
                                                    " agreed, expected ", expected.value())));
  }
  if (on_layout_) on_layout_(id, BucketsFromProto(agreed.buckets()), agreed.serving());
}

void Session::OnAbortMessage(const v1::Abort& abort) {
  const absl::Status status = absl::AbortedError(abort.reason());
  {
    MutexLock lock(&mutex_);
    aborted_ = status;
  }
  Notify(status);
  HalfClose();
}

void Session::OnEcho(const v1::Echo& echo) {
  const double now = UnixSeconds(absl::Now());
  MutexLock lock(&mutex_);
  const double round_trip = now - echo.sent();
  answered_ = SteadyNow() - absl::Seconds(std::max(round_trip, 0.0));
  // Negative if the clock was set back meanwhile.
  if (round_trip < 0 || round_trip >= shortest_round_trip_) return;
  shortest_round_trip_ = round_trip;
  clock_offset_ = echo.received() - (echo.sent() + now) / 2;
}

absl::Duration Session::clock_offset() {
  MutexLock lock(&mutex_);
  return absl::Seconds(clock_offset_);
}

absl::Time Session::answered() {
  MutexLock lock(&mutex_);
  return answered_;
}

void Session::OnEnd(const grpc::Status& status) {
  absl::Status end;
  {
    MutexLock lock(&mutex_);
    end = EndStatus(status);
  }
  Notify(end);
  MutexLock lock(&mutex_);
  end_ = end;
  changed_.NotifyAll();
}

absl::Status Session::EndStatus(const grpc::Status& status) const {
  if (aborted_) return *aborted_;
  if (local_end_) return *local_end_;
  if (status.ok() && (left_ || on_layout_)) return absl::OkStatus();
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return absl::FailedPreconditionError(absl::StrCat(
        "coordinator ", options_.coordinator, ": got a gRPC server that offers no sessions ",
        "(a worker?), expected a coordinator"));
  }
  if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
    return Annotate(FromGrpc(status), absl::StrCat("coordinator ", options_.coordinator));
  }
  if (!status.ok() && !IsBrokenStream(status.error_code())) return FromGrpc(status);
  return absl::UnavailableError(
      absl::StrCat("lost the coordinator ", options_.coordinator, ": ",
                   status.ok() ? "it closed the session" : status.error_message()));
}

void Session::Notify(const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    const bool expected = left_ || (local_end_ && absl::IsCancelled(*local_end_));
    if (notified_ || !view_ || expected) return;
    notified_ = true;
  }
  on_abort_(status);
}

void Session::SendHeartbeats() {
  v1::WorkerMessage heartbeat;
  absl::Time next = SteadyNow();
  while (true) {
    {
      MutexLock lock(&mutex_);
      while (!end_ && !changed_.WaitWithDeadline(&mutex_, next)) {
      }
      if (end_) return;
    }
    heartbeat.mutable_heartbeat()->set_sent(UnixSeconds(absl::Now()));
    AddWork(heartbeat.mutable_heartbeat());
    Write(heartbeat);
    next = SteadyNow() + options_.heartbeat_interval;
  }
}

void Session::AddWork(v1::Heartbeat* heartbeat) const {
  heartbeat->clear_work();
  if (!options_.work) return;
  absl::optional<v1::Work> work = options_.work();
  if (work.has_value()) *heartbeat->mutable_work() = *std::move(work);
}

void Session::Write(v1::WorkerMessage message) {
  MutexLock lock(&write_mutex_);
  if (half_closed_) return;
  SetChecksum(written_++, &message);
  // A failed write needs no handling: the stream is broken, and the reader notices.
  stream_->Write(message);
}

void Session::HalfClose() {
  MutexLock lock(&write_mutex_);
  if (half_closed_) return;
  half_closed_ = true;
  stream_->WritesDone();
}

}  // namespace gradwire
