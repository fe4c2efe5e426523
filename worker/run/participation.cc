#include "worker/run/participation.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_util.h"
#include "common/rpc/channel.h"
#include "common/session/local_address.h"
#include "worker/backends/traced_backend.h"
#include "worker/options/compression_of.h"
#include "worker/options/traits.h"

namespace gradwire {
namespace {

// The coordinator knows the cause of a broken transfer within about a second.
constexpr absl::Duration kVerdictTimeout = absl::Milliseconds(1800);
constexpr absl::Duration kLookSlice = absl::Milliseconds(100);
// For what workers prepare before they declare a layout, beside a step timeout.
constexpr absl::Duration kPreparing = absl::Minutes(1);
// Longer than a coordinator is silent that has not been lost (kCoordinatorSilence).
constexpr absl::Duration kWordTimeout = absl::Seconds(45);
constexpr absl::Duration kEndTimeout = absl::Seconds(10);
constexpr absl::Duration kEndSlice = absl::Milliseconds(50);

absl::StatusOr<std::unique_ptr<Backend>> MakeBackendOf(const WorkerOptions& options, v1::DType wire,
                                                       const Security& security, OnSpan on_span) {
  const absl::StatusOr<Compression> compression = CompressionOf(options);
  if (!compression.ok()) return compression.status();
  BackendOptions backend_options;
  backend_options.compression = *compression;
  backend_options.coordinator = options.coordinator;
  backend_options.wire = wire;
  backend_options.connections = options.connections;
  backend_options.groups = options.groups;
  backend_options.gathers = TraitsOfSync(options.sync).gathers;
  backend_options.on_span = on_span;
  backend_options.security = security;
  auto backend = MakeBackend(options.backend, backend_options);
  if (!backend.ok() || !on_span) return backend;
  return TraceBackend(*std::move(backend), std::move(on_span));
}

absl::Status CheckRanks(const View& view, const std::string& backend) {
  const std::vector<Rank> ranks = view.OwnRanks();
  if (ranks.size() == 1 || TraitsOfBackend(backend).several_ranks) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("got ", NameOf(ranks), ", expected one: with back end ", backend,
                   " a worker carries one rank, so the run needs ", view.world_size, " workers"));
}

absl::Status CheckServers(const View& view, const std::string& backend) {
  const bool at_workers = TraitsOfBackend(backend).links != LinkPattern::kCoordinator;
  if (!at_workers || !view.aggregators.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "got back end ", backend, " without separate aggregators, expected some ",
      "(gradwire-coordinator --aggregators N and --aggregate-only) to keep the model, ",
      "or --backend coordinator"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Participation>> Participation::Create(const WorkerOptions& options,
                                                                     Stopper* stopper,
                                                                     OnSpan on_span,
                                                                     GetStatus status,
                                                                     GetWork work) {
  const absl::StatusOr<v1::DType> wire = WireTypeOf(options);
  if (!wire.ok()) return wire.status();
  absl::StatusOr<Security> security = Security::Read(options.security);
  if (!security.ok()) return security.status();
  auto participation =
      absl::WrapUnique(new Participation(options, stopper, *wire, *security, std::move(work)));
  auto backend = MakeBackendOf(options, *wire, *security, std::move(on_span));
  if (!backend.ok()) return backend.status();
  participation->backend_ = *std::move(backend);
  if (absl::Status served = participation->Serve(std::move(status)); !served.ok()) return served;
  return participation;
}

Participation::Participation(const WorkerOptions& options, Stopper* stopper, v1::DType wire,
                             Security security, GetWork work)
    : options_(options),
      stopper_(stopper),
      wire_(wire),
      security_(std::move(security)),
      work_(std::move(work)) {}

// Nobody may call in any more when the exchange and what it serves end.
Participation::~Participation() {
  CancelExchange(absl::CancelledError("the worker ends"));
  session_.reset();
  server_.Shutdown();
  exchange_.reset();
}

absl::Status Participation::Serve(GetStatus status) {
  status_service_ = std::make_unique<StatusService>(std::move(status));
  std::vector<grpc::Service*> services = {status_service_.get()};
  for (grpc::Service* service : backend_->services()) services.push_back(service);
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

absl::Status Participation::OpenSession() {
  SessionOptions session_options;
  session_options.coordinator = options_.coordinator;
  session_options.connect_timeout = absl::Seconds(options_.connect_timeout_seconds);
  session_options.security = security_;
  session_options.cancelled = [this] { return stopper_->requested(); };
  session_options.work = work_;
  auto session =
      Session::Open(session_options, [this](const absl::Status& status) { OnAbort(status); },
                    {[this](Step step) { changes_.OnSealed(step); },
                     [this](View view) { OnNewView(std::move(view)); },
                     [this](const std::string& reason) { OnPaused(reason); }});
  if (!session.ok()) return session.status();
  session_ = *std::move(session);
  MutexLock lock(&mutex_);
  shown_session_ = session_.get();
  return absl::OkStatus();
}

absl::StatusOr<View> Participation::Join(v1::Hello hello) {
  if (absl::Status opened = OpenSession(); !opened.ok()) return opened;
  if (absl::Status ended = Ended(); !ended.ok()) return ended;
  hello.set_address(address_);
  absl::StatusOr<View> view = session_->Join(std::move(hello));
  if (!view.ok()) return view;
  {
    MutexLock lock(&mutex_);
    joined_ = true;
  }
  server_.AllowCalls(CallsOf(view->world_size));
  if (absl::Status ranks = CheckRanks(*view, options_.backend); !ranks.ok()) return ranks;
  seals_ = view->seals;
  generation_ = view->generation;
  return view;
}

bool Participation::joined() const {
  MutexLock lock(&mutex_);
  return joined_;
}

absl::StatusOr<LayoutId> Participation::Connect(const View& view, const Layout& tensors,
                                                const std::vector<BucketSpec>& buckets,
                                                const v1::Serving& serving) {
  v1::Layout declared = ToProto(tensors, WireSpecs(buckets, wire_));
  declared.set_name(options_.model);
  if (!serving.optimizer().empty()) {
    if (absl::Status can = CheckServers(view, options_.backend); !can.ok()) return can;
    *declared.mutable_serving() = serving;
  }
  absl::StatusOr<LayoutId> layout = DeclareLayout(std::move(declared));
  if (!layout.ok()) return layout;
  layouts_.emplace_back(*layout, buckets);  // also for Reconnect, if a worker is lost meanwhile
  if (absl::Status connected = Connect(view); !connected.ok()) return connected;
  exchange_->AddLayout(*layout, buckets);
  return layout;
}

// A worker that does not come to declare it is lost; then the others have.
absl::StatusOr<LayoutId> Participation::DeclareLayout(v1::Layout declared) {
  const LayoutId id(static_cast<int>(layouts_.size()));
  absl::StatusOr<LayoutId> layout =
      session_->DeclareLayout(std::move(declared), step_timeout() + kPreparing);
  if (!absl::IsDeadlineExceeded(layout.status())) return layout;
  ReportLate(layout.status(), Step(0));
  absl::StatusOr<LayoutId> at_last = session_->AwaitLayout(id, kVerdictTimeout);
  return absl::IsDeadlineExceeded(at_last.status()) ? layout : at_last;
}

absl::Status Participation::Connect(const View& view) {
  generation_ = view.generation;
  suspect_.reset();
  reported_ = false;
  absl::optional<Incarnation> unreached;
  auto exchange = backend_->Connect(
      view,
      [this] {
        absl::Status ended = Ended();
        return ended.ok() ? changes_.Unchanged() : ended;
      },
      &unreached);
  if (!exchange.ok()) {
    if (unreached.has_value()) suspect_ = Suspect{*unreached, exchange.status(), SteadyNow()};
    return exchange.status();
  }
  exchange_ = *std::move(exchange);
  {
    MutexLock lock(&mutex_);
    shown_exchange_ = exchange_.get();
    shown_generation_ = view.generation;
  }
  // An end, or a view, that came before the exchange was shown did not reach it.
  absl::Status ended = Ended();
  return ended.ok() ? changes_.Unchanged() : ended;
}

absl::Status Participation::Reconnect(const View& view) {
  past_ = totals();
  {
    MutexLock lock(&mutex_);
    shown_exchange_ = nullptr;
  }
  exchange_.reset();
  absl::Status connected = Connect(view);
  if (!connected.ok()) return connected;
  for (const auto& [layout, buckets] : layouts_) exchange_->AddLayout(layout, buckets);
  return absl::OkStatus();
}

void Participation::AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) {
  exchange_->AddLayout(layout, buckets);
  layouts_.emplace_back(layout, std::move(buckets));
}

TransferTotals Participation::totals() const {
  TransferTotals sum = past_;
  if (exchange_ == nullptr) return sum;
  const TransferTotals now = exchange_->totals();
  sum.bytes_sent += now.bytes_sent;
  sum.bytes_received += now.bytes_received;
  sum.overflow_steps += now.overflow_steps;
  for (const auto& [link, bytes] : now.sent_on) sum.sent_on[link] += bytes;
  sum.clocks = now.clocks;
  sum.compressed += now.compressed;
  return sum;
}

absl::Status Participation::Finish(absl::Time deadline) {
  // Everybody has all means when the last step is sealed, and who is late has been lost.
  return seals_ ? absl::OkStatus() : exchange_->Finish(deadline);
}

void Participation::OnNewView(View view) {
  const Generation generation = view.generation;
  {
    MutexLock lock(&mutex_);
    view_heard_ = SteadyNow();
  }
  changes_.OnNewView(std::move(view));
  // The trainer may have connected in the view already.
  MutexLock lock(&mutex_);
  if (shown_exchange_ == nullptr || shown_generation_ == generation) return;
  shown_exchange_->Cancel(
      absl::AbortedError(absl::StrCat("generation ", generation.value(), " has begun")));
}

void Participation::OnPaused(const std::string& reason) {
  spdlog::warn("{}", reason);
  changes_.OnPaused();
  CancelExchange(absl::AbortedError(reason));
}

absl::Time Participation::view_heard() const {
  MutexLock lock(&mutex_);
  return view_heard_;
}

absl::StatusOr<LayoutId> Participation::Declare(const std::string& name,
                                                const std::vector<BucketSpec>& buckets) {
  const int64_t bytes = static_cast<int64_t>(buckets.front().bytes);
  v1::Layout declared = ToProto({{name, {bytes}, "bytes", true}}, WireSpecs(buckets, wire_));
  declared.set_name(name);
  absl::StatusOr<LayoutId> layout = DeclareLayout(std::move(declared));
  if (layout.ok()) AddLayout(*layout, buckets);
  return layout;
}

absl::Status Participation::Ended() const {
  return stopper_->requested() ? stopper_->reason() : absl::OkStatus();
}

void Participation::OnAbort(const absl::Status& status) {
  stopper_->Request(status, ExitCode(status));
  changes_.End(status);
  CancelExchange(status);
}

void Participation::CancelExchange(const absl::Status& reason) {
  MutexLock lock(&mutex_);
  if (shown_exchange_ != nullptr) shown_exchange_->Cancel(reason);
}

void Participation::AwaitEndOfRun() const {
  const auto coordinator = v1::Status::NewStub(MakeChannel(options_.coordinator, security_));
  const absl::Time deadline = SteadyNow() + kEndTimeout;
  v1::StatusReply reply;
  do {
    grpc::ClientContext context;
    context.set_deadline(ToGrpcDeadline(SteadyNow() + absl::Seconds(1)));
    if (!coordinator->Get(&context, {}, &reply).ok()) return;
  } while (reply.state() == "running" && SteadyNow() < deadline &&
           !stopper_->WaitForRequest(SteadyNow() + kEndSlice));
}

void Participation::Stop(const absl::Status& reason) {
  changes_.End(reason);
  Session* session;
  bool joined;
  {
    MutexLock lock(&mutex_);
    session = shown_session_;
    joined = joined_;
  }
  if (joined) {
    session->Leave(false, std::string(reason.message())).IgnoreError();
    CancelExchange(reason);
  } else if (session != nullptr) {
    session->Cancel();
  }
}

void Participation::ReportReady(Step step, bool last, absl::Span<const TensorDigest> digests) {
  v1::Ready ready;
  ready.set_step(step.value());
  ready.set_generation(generation_.value());
  ready.set_last(last);
  for (const TensorDigest& digest : digests) {
    v1::TensorDigest* const added = ready.add_digests();
    added->set_tensor(static_cast<uint32_t>(digest.tensor));
    added->set_digest(digest.digest);
  }
  if (lost_.has_value()) *ready.mutable_lost() = ToProto(*lost_);
  lost_.reset();
  session_->ReportReady(ready);
}

absl::Status Participation::AwaitSealed(Step step) {
  const absl::Time begun = SteadyNow();
  while (true) {
    const auto verdict = changes_.AwaitSealed(step, SteadyNow() + kLookSlice);
    if (verdict.has_value()) return *verdict;
    // What is under way meanwhile is of the step behind it.
    ReportSuspect(exchange_->suspect(), Step(step.value() + 1));
    const absl::Duration waited = SteadyNow() - begun;
    if (waited < 2 * step_timeout()) continue;
    const absl::Status late = absl::DeadlineExceededError(absl::StrCat(
        "coordinator ", options_.coordinator, " did not say within ", absl::ToInt64Seconds(waited),
        " s that all workers have the means of step ", step.value()));
    ReportLate(late, step);
    if (waited > 2 * step_timeout() + kWordTimeout) return late;
  }
}

void Participation::ReportSuspect(const absl::optional<Suspect>& suspect, Step step) {
  if (!suspect.has_value() || reported_ || !changes_.Unchanged().ok()) return;
  reported_ = true;
  session_->ReportSuspect(suspect->worker, step, suspect->failure, suspect->at, generation_);
  for (const Incarnation other : suspect->others) {
    session_->ReportSuspect(other, step, suspect->failure, suspect->at, generation_);
  }
}

void Participation::ReportLate(const absl::Status& late, Step step) {
  ReportSuspect(Suspect{Session::kNobody, late, SteadyNow()}, step);
}

absl::optional<View> Participation::AwaitView(const absl::Status& status, Step step) {
  if (stopper_->requested() || !joined()) return absl::nullopt;
  const absl::optional<Suspect> suspect = exchange_ ? exchange_->suspect() : suspect_;
  ReportSuspect(suspect, step);
  if (absl::IsDeadlineExceeded(status)) ReportLate(status, step);
  if (!suspect.has_value() && !MayBeALoss(status)) return absl::nullopt;
  return changes_.AwaitView(SteadyNow() + kVerdictTimeout);
}

void Participation::Explain(const absl::Status& status, bool of_all) {
  if (stopper_->requested() || !joined()) return;
  session_->Leave(false, status.message(), of_all).IgnoreError();
}

}  // namespace gradwire
