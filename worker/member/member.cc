#include "worker/member/member.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_util.h"
#include "common/rpc/channel.h"
#include "common/wire/view.h"
#include "worker/backends/backend.h"
#include "worker/member/member_exchange.h"
#include "worker/member/view_changes.h"
#include "worker/options/traits.h"

namespace gradwire {
namespace {

// The coordinator knows the cause of a broken transfer within about a second, while it is awake.
constexpr absl::Duration kVerdictTimeout = absl::Milliseconds(1800);
constexpr absl::Duration kLookSlice = absl::Milliseconds(100);
// For the workers' preparation before they declare a layout, besides a step timeout.
constexpr absl::Duration kPreparing = absl::Minutes(1);
// Longer than any silence of a coordinator that is not lost (kCoordinatorSilence).
constexpr absl::Duration kWordTimeout = absl::Seconds(45);
constexpr absl::Duration kEndTimeout = absl::Seconds(10);
constexpr absl::Duration kEndSlice = absl::Milliseconds(50);

// Tells how long to wait for the coordinator's verdict on what was reported before. Its time begins
// when the coordinator has answered a later Heartbeat, because it may stand still (see
// docs/reliability.md).
class VerdictWait {
 public:
  explicit VerdictWait(Session& session) : session_(session) {}

  bool is_over() {
    const absl::Time now = SteadyNow();
    if (session_.answered() >= begun_) deadline_ = std::min(deadline_, now + kVerdictTimeout);
    return now >= deadline_;
  }

 private:
  Session& session_;
  const absl::Time begun_ = SteadyNow();
  absl::Time deadline_ = begun_ + kWordTimeout;
};

absl::StatusOr<std::unique_ptr<Backend>> MakeBackendOf(const MemberOptions& options,
                                                       const Security& security) {
  BackendOptions backend_options = options.transport;
  backend_options.coordinator = options.endpoint.coordinator;
  backend_options.security = security;
  return MakeBackend(options.backend, backend_options);
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

absl::StatusOr<std::unique_ptr<RunMember>> RunMember::Create(const MemberOptions& options,
                                                             MemberHooks hooks) {
  auto endpoint = RunEndpoint::Create(options.endpoint);
  if (!endpoint.ok()) return endpoint.status();
  auto backend = MakeBackendOf(options, (*endpoint)->security());
  if (!backend.ok()) return backend.status();
  auto member = absl::WrapUnique(
      new RunMember(options, std::move(hooks), *std::move(endpoint), *std::move(backend)));
  if (absl::Status served = member->Serve(); !served.ok()) return served;
  return member;
}

RunMember::RunMember(const MemberOptions& options, MemberHooks hooks,
                     std::unique_ptr<RunEndpoint> endpoint, std::unique_ptr<Backend> backend)
    : options_(options),
      hooks_(std::move(hooks)),
      status_service_([this] { return hooks_.status ? hooks_.status() : v1::StatusReply(); }),
      backend_(std::move(backend)),
      endpoint_(std::move(endpoint)) {}

// The endpoint ends next, so it makes no calls when the exchange ends.
RunMember::~RunMember() { CancelExchange(absl::CancelledError("the worker ends")); }

absl::Status RunMember::Serve() {
  std::vector<grpc::Service*> services = hooks_.services;
  services.push_back(&status_service_);
  for (grpc::Service* service : backend_->services()) services.push_back(service);
  return endpoint_->Serve(services);
}

absl::StatusOr<View> RunMember::Join(v1::Hello hello) {
  const absl::Status opened = endpoint_->Open(
      [this] { return !ended().ok(); }, [this](const absl::Status& status) { OnAbort(status); },
      {[this](Step step) { changes_.OnSealed(step); },
       [this](View view) { OnNewView(std::move(view)); },
       [this](const std::string& reason) { OnPaused(reason); }, hooks_.on_save, hooks_.on_saved},
      hooks_.work);
  if (absl::Status end = ended(); !end.ok()) return end;
  if (!opened.ok()) return opened;
  absl::StatusOr<View> view = endpoint_->Join(std::move(hello));
  if (!view.ok()) return view;
  if (absl::Status ranks = CheckRanks(*view, options_.backend); !ranks.ok()) return ranks;
  view_ = *view;
  return view;
}

absl::StatusOr<LayoutId> RunMember::Declare(const std::string& name, const Layout& tensors,
                                            const std::vector<BucketSpec>& buckets,
                                            const v1::Serving& serving) {
  const auto bytes = static_cast<int64_t>(buckets.front().bytes);
  v1::Layout declared = ToProto(tensors.empty() ? Layout{{name, {bytes}, "bytes", true}} : tensors,
                                WireSpecs(buckets, options_.transport.wire));
  declared.set_name(name);
  declared.set_backend(DescribeBackend(options_.backend, view_, options_.transport, buckets));
  if (!serving.optimizer().empty()) {
    if (absl::Status can = CheckServers(view_, options_.backend); !can.ok()) return can;
    *declared.mutable_serving() = serving;
  }
  absl::StatusOr<LayoutId> layout = DeclareLayout(std::move(declared));
  if (!layout.ok()) return layout;
  layouts_.emplace_back(*layout, buckets);
  if (exchange_ != nullptr) exchange_->AddLayout(*layout, buckets);
  return layout;
}

// If a worker does not declare the layout in time, it is lost; then the others have declared it.
absl::StatusOr<LayoutId> RunMember::DeclareLayout(v1::Layout declared) {
  const LayoutId id(static_cast<int>(layouts_.size()));
  Session& session = endpoint_->session();
  absl::StatusOr<LayoutId> layout =
      session.DeclareLayout(std::move(declared), options_.step_timeout + kPreparing);
  if (!absl::IsDeadlineExceeded(layout.status())) return layout;
  ReportLate(layout.status(), Step(0));
  VerdictWait wait(session);
  while (!wait.is_over()) {
    absl::StatusOr<LayoutId> at_last = session.AwaitLayout(id, kLookSlice);
    if (!absl::IsDeadlineExceeded(at_last.status())) return at_last;
  }
  return layout;
}

absl::Status RunMember::EndedOrChanged() const {
  absl::Status status = ended();
  return status.ok() ? changes_.Unchanged() : status;
}

std::shared_ptr<grpc::Channel> RunMember::CoordinatorChannel() const {
  return MakeChannel(options_.endpoint.coordinator, endpoint_->security(), "", kCoordinatorSilence);
}

absl::Status RunMember::Connect(const View& view) {
  past_ = totals();
  {
    MutexLock lock(&mutex_);
    shown_exchange_ = nullptr;
  }
  exchange_.reset();
  view_ = view;
  suspect_.reset();
  reported_ = told_of_end_ = false;
  absl::optional<Incarnation> unreached;
  auto exchange = backend_->Connect(
      view, [this] { return EndedOrChanged(); }, &unreached);
  if (!exchange.ok()) {
    if (unreached.has_value()) suspect_ = Suspect{*unreached, exchange.status(), SteadyNow()};
    return exchange.status();
  }
  exchange_ = *std::move(exchange);
  const OnSpan& on_span = options_.transport.on_span;
  if (options_.shares_exchange || on_span) {
    exchange_ = std::make_unique<MemberExchange>(std::move(exchange_), on_span);
  }
  for (const auto& [layout, buckets] : layouts_) exchange_->AddLayout(layout, buckets);
  {
    MutexLock lock(&mutex_);
    shown_exchange_ = exchange_.get();
    shown_generation_ = view.generation;
  }
  // An end or a view that came before the exchange was shown did not reach it.
  return EndedOrChanged();
}

TransferTotals RunMember::totals() const {
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

absl::Status RunMember::Finish(absl::Time deadline) {
  // All workers have all means when the last step is sealed, and late workers have been lost.
  return view_.seals ? absl::OkStatus() : exchange_->Finish(deadline);
}

absl::Status RunMember::Leave(absl::string_view reason) {
  return endpoint_->session().Leave(true, reason);
}

void RunMember::OnNewView(View view) {
  const Generation generation = view.generation;
  {
    MutexLock lock(&mutex_);
    view_heard_ = SteadyNow();
  }
  changes_.OnNewView(std::move(view));
  // The trainer may already have connected in the view.
  MutexLock lock(&mutex_);
  if (shown_exchange_ == nullptr || shown_generation_ == generation) return;
  shown_exchange_->Cancel(
      absl::AbortedError(absl::StrCat("generation ", generation.value(), " has begun")));
}

void RunMember::OnPaused(const std::string& reason) {
  spdlog::warn("{}", reason);
  changes_.OnPaused();
  CancelExchange(absl::AbortedError(reason));
}

void RunMember::OnAbort(const absl::Status& status) {
  if (hooks_.on_end) hooks_.on_end(status);
  End(status);
}

void RunMember::End(const absl::Status& reason) {
  changes_.End(reason);
  CancelExchange(ended());
}

void RunMember::CancelExchange(const absl::Status& reason) {
  MutexLock lock(&mutex_);
  if (shown_exchange_ != nullptr) shown_exchange_->Cancel(reason);
}

void RunMember::AwaitEndOfRun() {
  const auto coordinator =
      v1::Status::NewStub(MakeChannel(options_.endpoint.coordinator, endpoint_->security()));
  const absl::Time deadline = SteadyNow() + kEndTimeout;
  v1::StatusReply reply;
  do {
    grpc::ClientContext context;
    context.set_deadline(ToGrpcDeadline(SteadyNow() + absl::Seconds(1)));
    if (!coordinator->Get(&context, {}, &reply).ok()) return;
  } while (reply.state() == "running" && SteadyNow() < deadline &&
           changes_.AwaitEnd(SteadyNow() + kEndSlice).ok());
}

void RunMember::Stop(const absl::Status& reason) {
  changes_.End(reason);  // wakes threads that wait for the coordinator
  endpoint_->Stop(reason.message());
  CancelExchange(reason);
}

void RunMember::ReportReady(Step step, bool last, absl::Span<const TensorDigest> digests,
                            absl::Span<const v1::RankSamples> samples) {
  v1::Ready ready;
  ready.set_step(step.value());
  ready.set_generation(view_.generation.value());
  ready.set_last(last);
  for (const TensorDigest& digest : digests) {
    v1::TensorDigest* const added = ready.add_digests();
    added->set_tensor(static_cast<uint32_t>(digest.tensor));
    added->set_digest(digest.digest);
  }
  if (lost_.has_value()) *ready.mutable_lost() = ToProto(*lost_);
  lost_.reset();
  if (view_.records) *ready.mutable_samples() = {samples.begin(), samples.end()};
  endpoint_->session().ReportReady(ready);
}

absl::Status RunMember::AwaitSealed(Step step) {
  const absl::Time begun = SteadyNow();
  const absl::Duration late_after = 2 * options_.step_timeout;
  while (true) {
    const auto verdict = changes_.AwaitSealed(step, SteadyNow() + kLookSlice);
    if (verdict.has_value()) return *verdict;
    // Current transfers are of the next step.
    ReportSuspect(exchange_->suspect(), Step(step.value() + 1));
    const absl::Duration waited = SteadyNow() - begun;
    if (waited < late_after) continue;
    const absl::Status late = absl::DeadlineExceededError(absl::StrCat(
        "coordinator ", options_.endpoint.coordinator, " did not confirm within ",
        absl::ToInt64Seconds(waited), " s that all workers have the means of step ", step.value()));
    ReportLate(late, step);
    if (waited > late_after + kWordTimeout) return late;
  }
}

void RunMember::ReportSuspect(const absl::optional<Suspect>& suspect, Step step) {
  if (!suspect.has_value() || reported_ || !changes_.Unchanged().ok()) return;
  reported_ = true;
  Session& session = endpoint_->session();
  session.ReportSuspect(suspect->worker, step, suspect->failure, suspect->at, view_.generation);
  for (const Incarnation other : suspect->others) {
    session.ReportSuspect(other, step, suspect->failure, suspect->at, view_.generation);
  }
}

void RunMember::ReportLate(const absl::Status& late, Step step) {
  ReportSuspect(Suspect{Session::kNobody, late, SteadyNow()}, step);
}

absl::optional<View> RunMember::AwaitVerdict() {
  VerdictWait wait(endpoint_->session());
  absl::optional<View> view;
  while (!view.has_value() && ended().ok() && !wait.is_over()) {
    view = changes_.AwaitView(SteadyNow() + kLookSlice);
  }
  return view;
}

NextView RunMember::AwaitNextView(const absl::Status& failure, Step step) {
  if (!ended().ok() || !joined()) return {};
  const absl::optional<Suspect> suspect = exchange_ ? exchange_->suspect() : suspect_;
  ReportSuspect(suspect, step);
  if (absl::IsDeadlineExceeded(failure)) ReportLate(failure, step);
  // A transfer that a loss ended may report that as a fault of its own.
  const bool known =
      !changes_.Unchanged().ok() && (absl::IsInternal(failure) || absl::IsUnknown(failure));
  if (suspect.has_value() || MayBeALoss(failure) || known) {
    if (auto view = AwaitVerdict(); view.has_value()) {
      const bool is_loss = !ChangeOf(view_, *view).lost.empty();
      MutexLock lock(&mutex_);
      return {is_loss ? NextView::kGoOn : NextView::kUnpause, *std::move(view), view_heard_};
    }
  }
  told_of_end_ = true;
  return {};
}

absl::Status RunMember::Fail(const absl::Status& failure, Step step, bool of_all) {
  if (joined() && ended().ok()) {
    if (!told_of_end_ && !of_all) AwaitNextView(failure, step);
    if (ended().ok()) endpoint_->session().Leave(false, failure.message(), of_all).IgnoreError();
  }
  End(failure);
  return ended();
}

}  // namespace gradwire
