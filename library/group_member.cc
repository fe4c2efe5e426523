#include "library/group_member.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/host.h"
#include "common/base/output_file.h"
#include "common/base/status_util.h"
#include "common/session/local_address.h"
#include "library/shared_exchange.h"
#include "worker/backends/traced_backend.h"

namespace gradwire {
namespace {

constexpr char kSync[] =
    "ddp";  // what DistributedDataParallel does, as options of a worker name it
// The coordinator knows the cause of a broken transfer within about a second.
constexpr absl::Duration kVerdictTimeout = absl::Milliseconds(1800);

}  // namespace

absl::StatusOr<std::unique_ptr<GroupMember>> GroupMember::Join(const GroupSettings& settings,
                                                               const Environment& environment) {
  auto member = absl::WrapUnique(new GroupMember(settings, environment));
  if (absl::Status status = member->Start(); !status.ok()) return status;
  return member;
}

GroupMember::GroupMember(const GroupSettings& settings, const Environment& environment)
    : settings_(settings), environment_(environment), metrics_(kSync, settings.backend) {}

GroupMember::~GroupMember() {
  if (session_ != nullptr) session_->Leave(false, "it left before its end").IgnoreError();
  if (exchange_ != nullptr) exchange_->Cancel(absl::CancelledError("the process group ends"));
  server_.Shutdown();
}

absl::Status GroupMember::Start() {
  absl::StatusOr<Security> security = Security::Read(settings_.security);
  if (!security.ok()) return security.status();
  security_ = *std::move(security);
  if (absl::Status status = Host(); !status.ok()) return status;
  if (absl::Status status = ServeMetrics(); !status.ok()) return status;
  if (absl::Status status = MakeBackendOfRun(); !status.ok()) return status;
  absl::StatusOr<std::string> address = ServePeers();
  if (!address.ok()) return address.status();
  if (absl::Status status = JoinSession(*address); !status.ok()) return status;
  if (absl::Status status = OpenTrace(); !status.ok()) return status;
  absl::optional<Incarnation> unreached;
  auto exchange = backend_->Connect(
      view_, [this] { return state(); }, &unreached);
  if (!exchange.ok()) {
    absl::optional<Suspect> suspect;
    if (unreached.has_value()) suspect = Suspect{*unreached, exchange.status(), SteadyNow()};
    return FailAt(exchange.status(), suspect);
  }
  exchange_ = *std::move(exchange);
  if (settings_.compression.has_factors()) {
    exchange_ = std::make_unique<SharedExchange>(std::move(exchange_));
  }
  MutexLock lock(&mutex_);
  cancellable_ = exchange_.get();
  return failure_;
}

absl::Status GroupMember::Host() {
  if (!settings_.host_coordinator || settings_.rank != 0 || settings_.world_size == 0) {
    return absl::OkStatus();
  }
  auto hosted =
      HostedCoordinator::StartUnlessServed({settings_.coordinator, settings_.world_size,
                                            settings_.coordinator_metrics, settings_.security},
                                           environment_);
  if (!hosted.ok()) return hosted.status();
  hosted_ = *std::move(hosted);
  if (hosted_ != nullptr) settings_.coordinator = hosted_->address();
  return absl::OkStatus();
}

std::string GroupMember::page() const {
  return hosted_ == nullptr ? "" : hosted_->metrics_address();
}

absl::Status GroupMember::ServeMetrics() {
  if (settings_.metrics.empty()) return absl::OkStatus();
  auto ready = [this] {
    MutexLock lock(&mutex_);
    return joined_;
  };
  auto server = MetricsServer::Start(settings_.metrics, metrics_.registry(), ready, nullptr, {},
                                     {"", settings_.security});
  if (!server.ok()) return server.status();
  metrics_server_ = *std::move(server);
  spdlog::info("metrics at {}/metrics", metrics_server_->url());
  return absl::OkStatus();
}

OnSpan GroupMember::span_listener() {
  if (settings_.trace.empty()) return nullptr;
  return [this](const TraceSpan& span) { trace_log_->Add(span); };
}

absl::Status GroupMember::MakeBackendOfRun() {
  BackendOptions options;
  options.coordinator = settings_.coordinator;
  options.wire = settings_.wire_dtype;
  options.compression = settings_.compression;
  options.connections = settings_.connections;
  options.on_span = span_listener();
  options.security = security_;
  absl::StatusOr<std::unique_ptr<Backend>> backend = MakeBackend(settings_.backend, options);
  if (!backend.ok()) return backend.status();
  backend_ = *std::move(backend);
  if (options.on_span) backend_ = TraceBackend(std::move(backend_), options.on_span);
  return absl::OkStatus();
}

absl::StatusOr<std::string> GroupMember::ServePeers() {
  status_service_ = std::make_unique<StatusService>([this] { return GetStatus(); });
  std::vector<grpc::Service*> services = {status_service_.get()};
  for (grpc::Service* service : backend_->services()) services.push_back(service);
  const absl::StatusOr<std::string> listen =
      ListenAddressOf(settings_.listen, settings_.advertise, settings_.coordinator);
  if (!listen.ok()) return listen.status();
  absl::StatusOr<GrpcServer> server = StartGrpcServer(*listen, services, security_);
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  return AdvertisedAddress(settings_.advertise, settings_.coordinator, server_.address);
}

v1::Hello GroupMember::MakeHello(const std::string& address) const {
  v1::Hello hello;
  if (settings_.rank >= 0) hello.add_ranks(static_cast<uint32_t>(settings_.rank));
  hello.set_world_size(static_cast<uint32_t>(settings_.world_size));
  hello.set_address(address);
  if (metrics_server_ != nullptr) {
    hello.set_metrics(ReachableAt(metrics_server_->address(), address));
  }
  hello.set_cores(static_cast<uint32_t>(UsableCores()));
  hello.set_host(CoresId());
  hello.set_pid(static_cast<uint32_t>(getpid()));
  auto& words = *hello.mutable_settings();
  hello.set_cannot_recover("programs on libgradwire end together");
  words["sync"] = kSync;
  words["backend"] = settings_.backend;
  words["wire"] = settings_.wire;
  words["compress"] = settings_.compress;
  words["compress-warmup"] = absl::StrCat(settings_.compression.warmup_steps);
  words["model"] = settings_.name;
  return hello;
}

absl::Status GroupMember::JoinSession(const std::string& address) {
  SessionOptions options;
  options.coordinator = settings_.coordinator;
  options.connect_timeout = settings_.connect_timeout;
  options.security = security_;
  absl::StatusOr<std::unique_ptr<Session>> session =
      Session::Open(options, [this](const absl::Status& status) { OnAbort(status); });
  if (!session.ok()) return session.status();
  session_ = *std::move(session);
  absl::StatusOr<View> view = session_->Join(MakeHello(address));
  if (view.ok()) server_.AllowCalls(CallsOf(view->world_size));
  if (!view.ok()) return view.status();
  view_ = *std::move(view);
  rank_ = view_.OwnRanks().front();
  spdlog::info("rank {} of {}, run {}", rank_.value(), view_.world_size, ToHex(view_.run_id));
  metrics_.SetView(static_cast<int>(view_.members.size()), view_.generation);
  MutexLock lock(&mutex_);
  rank_status_.set_rank(static_cast<uint32_t>(rank_.value()));
  rank_status_.set_address(address);
  joined_ = true;
  return failure_;
}

absl::Status GroupMember::OpenTrace() {
  if (settings_.trace.empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<TraceLog>> log = TraceLog::Open(
      PathOfRank(settings_.trace, rank_), rank_.value(), absl::StrCat("rank ", rank_.value()));
  if (!log.ok()) return Fail(log.status());
  trace_log_ = *std::move(log);
  return absl::OkStatus();
}

absl::Status GroupMember::state() {
  MutexLock lock(&mutex_);
  if (left_ && failure_.ok()) return absl::FailedPreconditionError("the process group is closed");
  return failure_;
}

absl::StatusOr<LayoutId> GroupMember::Declare(const std::string& name, const Layout& tensors,
                                              const std::vector<BucketSpec>& buckets) {
  v1::Layout layout = ToProto(tensors, WireSpecs(buckets, settings_.wire_dtype));
  layout.set_name(name);
  const absl::StatusOr<LayoutId> id =
      session_->DeclareLayout(std::move(layout), settings_.step_timeout);
  if (!id.ok()) return Fail(id.status());
  exchange_->AddLayout(*id, buckets);
  return id;
}

void GroupMember::Keep(const absl::Status& failure) {
  Exchange* exchange;
  absl::Status kept;
  {
    MutexLock lock(&mutex_);
    if (failure_.ok()) failure_ = failure;
    kept = failure_;
    exchange = cancellable_;
    changed_.NotifyAll();
  }
  if (exchange != nullptr) exchange->Cancel(kept);
}

void GroupMember::OnAbort(const absl::Status& status) { Keep(status); }

absl::optional<absl::Status> GroupMember::AwaitVerdict() {
  const absl::Time deadline = SteadyNow() + kVerdictTimeout;
  MutexLock lock(&mutex_);
  while (failure_.ok()) {
    if (changed_.WaitWithDeadline(&mutex_, deadline)) break;
  }
  if (failure_.ok()) return absl::nullopt;
  return failure_;
}

absl::Status GroupMember::Fail(const absl::Status& cause) {
  return FailAt(cause, exchange_ != nullptr ? exchange_->suspect() : absl::nullopt);
}

absl::Status GroupMember::FailAt(const absl::Status& cause,
                                 const absl::optional<Suspect>& suspect) {
  if (absl::Status known = state(); !known.ok()) return known;
  metrics_.CountRpcError(cause.code());
  if (suspect.has_value())
    session_->ReportSuspect(suspect->worker, step_, suspect->failure, suspect->at);
  const bool peer_failed =
      suspect.has_value() || absl::IsUnavailable(cause) || absl::IsAborted(cause);
  if (peer_failed) {
    const absl::optional<absl::Status> verdict = AwaitVerdict();
    if (verdict.has_value()) return *verdict;
  }
  session_->Leave(false, std::string(cause.message())).IgnoreError();
  Keep(cause);
  return state();
}

void GroupMember::CountTransfers(StepRecord* record) {
  const TransferTotals totals = exchange_->totals();
  record->bytes_sent = totals.bytes_sent - counted_.bytes_sent;
  record->bytes_received = totals.bytes_received - counted_.bytes_received;
  if (const auto told = compression_.OnStep(totals.compressed); told.has_value()) {
    record->compressed = told;
  }
  metrics_.CountWireOverflows(totals.overflow_steps - counted_.overflow_steps);
  counted_ = totals;
}

void GroupMember::Report(StepRecord record) {
  record.step = step_;
  record.rank = rank_;
  record.time = absl::Now();
  CountTransfers(&record);
  metrics_.Observe(record);
  v1::StepDone done = ToStepDone(record);
  session_->ReportStep(done);
  if (step_ == Step(0) && trace_log_ != nullptr) {
    trace_log_->SetClockOffset(session_->clock_offset());
  }
  ++step_;
  MutexLock lock(&mutex_);
  rank_status_.set_steps_done(step_.value());
  *rank_status_.mutable_last_step() = std::move(done);
}

absl::Status GroupMember::CloseTrace() {
  if (trace_log_ == nullptr) return absl::OkStatus();
  return trace_log_->Close(session_->clock_offset());
}

absl::Status GroupMember::Leave() {
  absl::Status status = state();
  if (status.ok()) {
    // The others may work on for as long as they like; if one is lost, the run ends.
    status = exchange_->Finish(absl::InfiniteFuture());
    if (!status.ok()) status = Fail(status);
  }
  if (status.ok()) {
    status = session_->Leave(true, "the process group was closed");
    if (!status.ok()) Keep(status);
  }
  if (hosted_ != nullptr) hosted_->AwaitEnd();
  const absl::Status traced = CloseTrace();
  MutexLock lock(&mutex_);
  left_ = true;
  return status.ok() ? traced : status;
}

v1::StatusReply GroupMember::GetStatus() {
  v1::StatusReply reply;
  reply.set_program(settings_.name);
  reply.set_version(GRADWIRE_VERSION);
  MutexLock lock(&mutex_);
  reply.set_state(!failure_.ok() ? "aborted" : joined_ ? "running" : "waiting");
  reply.set_reason(std::string(failure_.message()));
  if (!joined_) return reply;
  reply.set_run_id(ToBytes(view_.run_id));
  reply.set_epoch(view_.epoch.value());
  reply.set_generation(view_.generation.value());
  reply.set_world_size(static_cast<uint32_t>(view_.world_size));
  *reply.add_ranks() = rank_status_;
  return reply;
}

}  // namespace gradwire
