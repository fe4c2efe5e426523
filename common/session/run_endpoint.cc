#include "common/session/run_endpoint.h"

#include <unistd.h>

#include <utility>

#include "absl/memory/memory.h"
#include "common/base/host.h"
#include "common/base/memory_limits.h"
#include "common/session/local_address.h"

namespace gradwire {

absl::StatusOr<std::unique_ptr<RunEndpoint>> RunEndpoint::Create(
    const RunEndpointOptions& options) {
  absl::StatusOr<Security> security = Security::Read(options.security);
  if (!security.ok()) return security.status();
  return absl::WrapUnique(new RunEndpoint(options, *std::move(security)));
}

RunEndpoint::RunEndpoint(const RunEndpointOptions& options, Security security)
    : options_(options), security_(std::move(security)) {}

RunEndpoint::~RunEndpoint() {
  CloseSession();
  server_.Shutdown();
}

absl::Status RunEndpoint::Serve(const std::vector<grpc::Service*>& services) {
  const absl::StatusOr<std::string> listen =
      ListenAddressOf(options_.listen, options_.advertise, options_.coordinator);
  if (!listen.ok()) return listen.status();
  absl::StatusOr<GrpcServer> server = StartGrpcServer(*listen, services, security_);
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  absl::StatusOr<std::string> address =
      AdvertisedAddress(options_.advertise, options_.coordinator, server_.address);
  if (!address.ok()) return address.status();
  address_ = *std::move(address);
  return absl::OkStatus();
}

absl::Status RunEndpoint::Open(std::function<bool()> stopped, Session::OnAbort on_abort,
                               Session::Listener listener,
                               std::function<absl::optional<v1::Work>()> work) {
  SessionOptions session_options;
  session_options.coordinator = options_.coordinator;
  session_options.connect_timeout = options_.connect_timeout;
  session_options.cancelled = std::move(stopped);
  session_options.security = security_;
  session_options.work = std::move(work);
  auto session =
      Session::Open(std::move(session_options), std::move(on_abort), std::move(listener));
  if (!session.ok()) return session.status();
  session_ = *std::move(session);
  MutexLock lock(&mutex_);
  shown_session_ = session_.get();
  return absl::OkStatus();
}

absl::StatusOr<View> RunEndpoint::Join(v1::Hello hello) {
  hello.set_address(address_);
  hello.set_pid(static_cast<uint32_t>(getpid()));
  hello.set_host(CoresId());
  if (options_.shares_memory) hello.set_memory(MemoryId());
  if (!hello.memory().empty()) *hello.mutable_memory_limits() = ToProto(OwnMemoryLimits());
  hello.set_cores(static_cast<uint32_t>(UsableCores()));
  return Entered(session_->Join(std::move(hello)));
}

absl::StatusOr<View> RunEndpoint::Offer(Session::OnLayout on_layout) {
  return Entered(session_->Offer(address_, std::move(on_layout)));
}

absl::StatusOr<View> RunEndpoint::Entered(absl::StatusOr<View> view) {
  if (!view.ok()) return view;
  server_.AllowCalls(CallsOf(view->world_size));
  MutexLock lock(&mutex_);
  joined_ = true;
  return view;
}

bool RunEndpoint::joined() const {
  MutexLock lock(&mutex_);
  return joined_;
}

void RunEndpoint::Stop(absl::string_view reason) {
  Session* session;
  bool is_member;
  {
    MutexLock lock(&mutex_);
    session = shown_session_;
    is_member = joined_;
  }
  if (session == nullptr) return;
  if (is_member) {
    session->Leave(false, reason).IgnoreError();
  } else {
    session->Cancel();
  }
}

void RunEndpoint::CloseSession() {
  {
    MutexLock lock(&mutex_);
    shown_session_ = nullptr;
  }
  session_.reset();
}

}  // namespace gradwire
