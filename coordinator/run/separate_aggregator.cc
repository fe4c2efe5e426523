#include "coordinator/run/separate_aggregator.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "coordinator/run/coordinator_options.h"

namespace gradwire {

absl::StatusOr<std::unique_ptr<SeparateAggregator>> SeparateAggregator::Start(
    const CoordinatorOptions& options) {
  auto endpoint =
      RunEndpoint::Create({options.coordinator, options.listen, options.advertise,
                           absl::Seconds(options.connect_timeout_seconds), options.security});
  if (!endpoint.ok()) return endpoint.status();
  auto aggregator = absl::WrapUnique(new SeparateAggregator(options, *std::move(endpoint)));
  if (absl::Status status = aggregator->Listen(); !status.ok()) return status;
  return aggregator;
}

SeparateAggregator::SeparateAggregator(const CoordinatorOptions& options,
                                       std::unique_ptr<RunEndpoint> endpoint)
    : options_(options),
      aggregation_({[this](uint64_t bytes) { metrics_.CountReceived(bytes); },
                    [this](uint64_t bytes) { metrics_.CountSent(bytes); },
                    [this](absl::StatusCode code) { metrics_.CountRpcError(code); }}),
      endpoint_(std::move(endpoint)) {}

SeparateAggregator::~SeparateAggregator() {
  endpoint_->CloseSession();
  aggregation_.Abort(absl::CancelledError("the aggregator ends"));
}

absl::Status SeparateAggregator::Listen() {
  if (options_.metrics != "off") {
    auto ready = [this] {
      MutexLock lock(&mutex_);
      return aggregator_ != nullptr;
    };
    auto server = MetricsServer::Start(
        options_.metrics, metrics_.registry(), ready, nullptr, {},
        {options_.http_token ? endpoint_->security().token() : "", options_.security});
    if (!server.ok()) return server.status();
    metrics_server_ = *std::move(server);
    spdlog::info("metrics are on {}/metrics", metrics_server_->url());
  }
  if (absl::Status served = endpoint_->Serve({&aggregation_}); !served.ok()) return served;
  spdlog::info("aggregator listens on {}", endpoint_->bound());
  if (options_.port_file.empty()) return absl::OkStatus();
  return WritePortFile(options_.port_file, endpoint_->bound(),
                       metrics_server_ == nullptr ? "" : metrics_server_->address());
}

absl::Status SeparateAggregator::Connect() {
  Session::Listener listener;
  listener.on_new_view = [this](const View& view) { OnNewView(view); };
  return endpoint_->Open(
      [this] {
        MutexLock lock(&mutex_);
        return !stopped_.ok();
      },
      [this](const absl::Status& status) { OnRunOver(status); }, std::move(listener));
}

absl::Status SeparateAggregator::Join() {
  if (absl::Status connected = Connect(); !connected.ok()) return connected;
  {
    MutexLock lock(&mutex_);
    if (!stopped_.ok()) return stopped_;  // it may have come before Stop could see the session
  }
  const auto on_layout = [this](LayoutId layout, const std::vector<BucketSpec>& buckets,
                                const v1::Serving& serving) {
    OnLayout({layout, buckets, serving});
  };
  const absl::StatusOr<View> view = endpoint_->Offer(on_layout);
  return view.ok() ? Serve(*view) : view.status();
}

absl::Status SeparateAggregator::Run() {
  const absl::Status joined = Join();
  MutexLock lock(&mutex_);
  if (!joined.ok()) return stopped_.ok() ? joined : stopped_;
  while (!over_) changed_.Wait(&mutex_);
  return *over_;
}

absl::Status SeparateAggregator::Serve(const View& view) {
  if (!view.aggregator.has_value()) {
    return absl::InternalError("the coordinator sent a view without a share for this aggregator");
  }
  const Shard share{static_cast<int>(view.aggregators.size()), {*view.aggregator}};
  auto on_step = [this](LayoutId, Step step, const Waits&) {
    metrics_.SetStep(Step(step.value() + 1));
  };
  auto aggregator = std::make_shared<Aggregator>(view, share, AggregatorHooks{on_step, nullptr});
  MutexLock lock(&mutex_);
  // Another thread handles the first view; a later view may arrive before it is done.
  if (aggregator_ != nullptr && view.generation < aggregator_->view().generation) {
    return absl::OkStatus();
  }
  for (const AgreedLayout& agreed : layouts_) {
    AddLayout(agreed, aggregator.get());
  }
  if (aggregator_ != nullptr) aggregator_->Abort(absl::AbortedError("a newer view has begun"));
  aggregator_ = std::move(aggregator);
  aggregation_.Serve(aggregator_);
  metrics_.SetView(static_cast<int>(view.members.size()), view.generation);
  spdlog::info("aggregator {} of {}, run {}, generation {}", *view.aggregator, share.owners,
               ToHex(view.run_id), view.generation.value());
  return absl::OkStatus();
}

// A layout that begins with bytes is no model's: its steps, such as evaluations, are none of the
// run.
void SeparateAggregator::AddLayout(const AgreedLayout& agreed, Aggregator* aggregator) {
  aggregator->AddLayout(agreed.layout, agreed.buckets, agreed.serving,
                        /*is_evaluation=*/IsBroadcast(agreed.buckets.front()));
}

void SeparateAggregator::OnNewView(const View& view) {
  if (absl::Status served = Serve(view); !served.ok()) OnRunOver(served);
}

void SeparateAggregator::OnLayout(const AgreedLayout& agreed) {
  MutexLock lock(&mutex_);
  layouts_.push_back(agreed);
  if (aggregator_ != nullptr) AddLayout(agreed, aggregator_.get());
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
    stopped_.Update(absl::CancelledError(reason));
  }
  endpoint_->Stop(reason);
  OnRunOver(absl::CancelledError(reason));
}

}  // namespace gradwire
