#include "coordinator/run/separate_aggregator.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/session/local_address.h"
#include "coordinator/run/port_file.h"

namespace gradwire {

absl::StatusOr<std::unique_ptr<SeparateAggregator>> SeparateAggregator::Start(
    const CoordinatorOptions& options) {
  absl::StatusOr<Security> security = Security::Read(options.security);
  if (!security.ok()) return security.status();
  auto aggregator = absl::WrapUnique(new SeparateAggregator(options, *std::move(security)));
  if (absl::Status status = aggregator->Listen(); !status.ok()) return status;
  if (absl::Status status = aggregator->Connect(); !status.ok()) return status;
  return aggregator;
}

SeparateAggregator::SeparateAggregator(const CoordinatorOptions& options, Security security)
    : options_(options),
      security_(std::move(security)),
      aggregation_({[this](uint64_t bytes) { metrics_.CountReceived(bytes); },
                    [this](uint64_t bytes) { metrics_.CountSent(bytes); },
                    [this](absl::StatusCode code) { metrics_.CountRpcError(code); }}) {}

SeparateAggregator::~SeparateAggregator() {
  session_.reset();
  aggregation_.Abort(absl::CancelledError("the aggregator ends"));
  grpc_.Shutdown();
}

absl::Status SeparateAggregator::Listen() {
  if (options_.metrics != "off") {
    auto ready = [this] {
      MutexLock lock(&mutex_);
      return aggregator_ != nullptr;
    };
    auto server =
        MetricsServer::Start(options_.metrics, metrics_.registry(), ready, nullptr, {},
                             {options_.http_token ? security_.token() : "", options_.security});
    if (!server.ok()) return server.status();
    metrics_server_ = *std::move(server);
    spdlog::info("metrics are on {}/metrics", metrics_server_->url());
  }
  absl::StatusOr<GrpcServer> grpc = StartGrpcServer(options_.listen, {&aggregation_}, security_);
  if (!grpc.ok()) return grpc.status();
  grpc_ = *std::move(grpc);
  spdlog::info("aggregator listens on {}", grpc_.address);
  if (options_.port_file.empty()) return absl::OkStatus();
  return WritePortFile(options_.port_file, grpc_.address,
                       metrics_server_ == nullptr ? "" : metrics_server_->address());
}

absl::Status SeparateAggregator::Connect() {
  absl::StatusOr<std::string> address =
      AdvertisedAddress(options_.advertise, options_.coordinator, grpc_.address);
  if (!address.ok()) return address.status();
  address_ = *std::move(address);
  SessionOptions session_options;
  session_options.coordinator = options_.coordinator;
  session_options.connect_timeout = absl::Seconds(options_.connect_timeout_seconds);
  session_options.security = security_;
  session_options.cancelled = [this] {
    MutexLock lock(&mutex_);
    return stopped_;
  };
  absl::StatusOr<std::unique_ptr<Session>> session =
      Session::Open(session_options, [this](const absl::Status& status) { OnRunOver(status); },
                    {nullptr, [this](const View& view) { OnNewView(view); }, nullptr});
  if (!session.ok()) return session.status();
  session_ = *std::move(session);
  return absl::OkStatus();
}

absl::Status SeparateAggregator::Run() {
  const auto on_layout = [this](LayoutId layout, const std::vector<BucketSpec>& buckets,
                                const v1::Serving& serving) {
    OnLayout({layout, buckets, serving});
  };
  const absl::StatusOr<View> view = session_->Offer(address_, on_layout);
  if (!view.ok()) return view.status();
  if (absl::Status status = Serve(*view); !status.ok()) return status;
  MutexLock lock(&mutex_);
  while (!over_) changed_.Wait(&mutex_);
  return *over_;
}

absl::Status SeparateAggregator::Serve(const View& view) {
  if (!view.aggregator.has_value()) {
    return absl::InternalError("the coordinator sent a view that gives this aggregator no share");
  }
  const Share share{static_cast<int>(view.aggregators.size()), {*view.aggregator}};
  auto on_step = [this](LayoutId, Step step, const Waits&) {
    metrics_.SetStep(Step(step.value() + 1));
  };
  auto aggregator = std::make_shared<Aggregator>(view, share, AggregatorHooks{on_step, nullptr});
  grpc_.AllowCalls(CallsOf(view.world_size));
  MutexLock lock(&mutex_);
  // Another thread brings the first view, which a further one may overtake.
  if (aggregator_ != nullptr && view.generation < aggregator_->view().generation) {
    return absl::OkStatus();
  }
  for (const AgreedLayout& agreed : layouts_) {
    aggregator->AddLayout(agreed.layout, agreed.buckets, agreed.serving);
  }
  if (aggregator_ != nullptr) aggregator_->Abort(absl::AbortedError("another view has begun"));
  aggregator_ = std::move(aggregator);
  aggregation_.Serve(aggregator_);
  metrics_.SetView(static_cast<int>(view.members.size()), view.generation);
  spdlog::info("aggregator {} of {}, run {}, generation {}", *view.aggregator, share.owners,
               ToHex(view.run_id), view.generation.value());
  return absl::OkStatus();
}

void SeparateAggregator::OnNewView(const View& view) {
  if (absl::Status served = Serve(view); !served.ok()) OnRunOver(served);
}

void SeparateAggregator::OnLayout(const AgreedLayout& agreed) {
  MutexLock lock(&mutex_);
  layouts_.push_back(agreed);
  if (aggregator_ != nullptr) {
    aggregator_->AddLayout(agreed.layout, agreed.buckets, agreed.serving);
  }
}

void SeparateAggregator::OnRunOver(const absl::Status& status) {
  aggregation_.Abort(status.ok() ? absl::AbortedError("the run is over: all ranks finished")
                                 : status);
  MutexLock lock(&mutex_);
  if (!over_) over_ = status;
  changed_.NotifyAll();
}

void SeparateAggregator::Stop(absl::string_view reason) {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
  }
  if (session_ == nullptr) return;
  session_->Leave(false, reason).IgnoreError();
  session_->Cancel();
  OnRunOver(absl::CancelledError(reason));
}

}  // namespace gradwire
