#include "tests/cluster/backend_cluster.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/host.h"
#include "common/base/mutex.h"
#include "common/rpc/channel.h"
#include "worker/options/traits.h"

namespace gradwire {
namespace {

constexpr absl::Duration kConnectTime = absl::Seconds(2);  // where it may fail

std::unique_ptr<grpc::Server> Serve(const std::vector<grpc::Service*>& services,
                                    std::string* address, const std::string& host = "127.0.0.1") {
  grpc::ServerBuilder builder;
  ConfigureServer(&builder);
  int port = 0;
  builder.AddListeningPort(absl::StrCat(host, ":0"), grpc::InsecureServerCredentials(), &port);
  for (grpc::Service* service : services) builder.RegisterService(service);
  auto server = builder.BuildAndStart();
  *address = absl::StrCat(host, ":", port);
  return server;
}

// Runs `body` for all workers at once.
std::vector<absl::Status> OnAll(size_t workers, const std::function<absl::Status(int)>& body) {
  std::vector<absl::Status> statuses(workers);
  std::vector<std::thread> threads;
  for (size_t worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] { statuses[worker] = body(static_cast<int>(worker)); });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

View EmptyView(const Deal& deal, uint64_t chunk_bytes) {
  View view;
  view.run_id = MakeRunId();
  view.epoch = CoordinatorEpoch(1);
  view.generation = Generation(1);
  view.chunk_bytes = chunk_bytes;
  for (const auto& ranks : deal) view.world_size += static_cast<int>(ranks.size());
  return view;
}

absl::Span<uint8_t> BytesOf(std::string* bytes) {
  return {reinterpret_cast<uint8_t*>(&(*bytes)[0]), bytes->size()};
}

}  // namespace

std::vector<std::string> BackendsOfOneProcess() {
  std::vector<std::string> names;
#define GRADWIRE_BACKEND(name, ...) \
  if (!TraitsOfBackend(name).under_mpirun) names.push_back(name);
#include "worker/options/backends.inc"
#undef GRADWIRE_BACKEND
  return names;
}

Deal OneEach(int world_size) {
  Deal deal;
  for (int rank = 0; rank < world_size; ++rank) deal.push_back({rank});
  return deal;
}

BackendCluster::BackendCluster(const std::string& backend, const Deal& deal,
                               std::vector<BucketSpec> buckets, const Settings& settings)
    : buckets_(std::move(buckets)),
      wire_(settings.wire),
      through_(settings.through),
      view_(EmptyView(deal, settings.chunk_bytes)),
      aggregation_service_({}),
      rendezvous_service_(view_.run_id, &rendezvous_) {
  coordinator_ = Serve({&aggregation_service_, &rendezvous_service_}, &coordinator_address_);
  StartAggregators(settings.aggregators);
  BackendOptions options;
  options.coordinator = Published(coordinator_address_);
  options.connections = settings.connections;
  options.groups = settings.groups;
  options.gathers = settings.gathers;
  options.wire = settings.wire;
  options.compression = settings.compression;
  StartWorkers(backend, deal, options, settings);
  ServeAggregators();
  connected_ = ConnectWorkers();
  EXPECT_TRUE(through_ || connected_.ok()) << connected_;
}

std::string BackendCluster::Published(const std::string& address) const {
  return through_ ? through_(address) : address;
}

void BackendCluster::StartWorkers(const std::string& backend, const Deal& deal,
                                  const BackendOptions& options, const Settings& settings) {
  for (const auto& ranks : deal) {
    WorkerState state;
    state.backend = MakeBackend(backend, options).value();
    Member member{MakeIncarnation(), "127.0.0.1:0", {}};
    for (const int rank : ranks) member.ranks.emplace_back(rank);
    member.pid = static_cast<uint32_t>(getpid());
    const int host = settings.hosts.empty() ? 0 : settings.hosts[workers_.size()];
    member.memory = absl::StrCat(MemoryId(), host == 0 ? "" : absl::StrCat(" of host ", host));
    member.limits = settings.limits;
    const std::vector<grpc::Service*> services = state.backend->services();
    if (!services.empty()) {
      state.server = Serve(services, &member.address, absl::StrCat("127.0.0.", 1 + host));
    }
    if (!services.empty()) member.address = Published(member.address);
    view_.members.push_back(member);
    workers_.push_back(std::move(state));
  }
}

void BackendCluster::StartAggregators(int count) {
  for (int i = 0; i < count; ++i) {
    aggregators_.push_back(std::make_unique<AggregatorState>());
    AggregatorState& state = *aggregators_.back();
    state.service = std::make_unique<AggregationService>(AggregationObserver());
    view_.aggregators.emplace_back();
    state.server = Serve({state.service.get()}, &view_.aggregators.back());
    view_.aggregators.back() = Published(view_.aggregators.back());
  }
}

void BackendCluster::ServeAggregators() {
  const std::vector<BucketSpec> specs = WireSpecs(buckets_, wire_);
  aggregator_ = std::make_shared<Aggregator>(view_, Shard(), AggregatorHooks());
  aggregator_->AddLayout(LayoutId(0), specs);
  aggregation_service_.Serve(aggregator_);
  const int count = static_cast<int>(aggregators_.size());
  for (int i = 0; i < count; ++i) {
    AggregatorState& state = *aggregators_[i];
    state.aggregator = std::make_shared<Aggregator>(view_, Shard{count, {i}}, AggregatorHooks());
    state.aggregator->AddLayout(LayoutId(0), specs);
    state.service->Serve(state.aggregator);
  }
}

absl::Status BackendCluster::ConnectWorkers() {
  const absl::Time deadline = SteadyNow() + kConnectTime;
  const auto ended = [this, deadline]() -> absl::Status {
    if (!through_ || SteadyNow() < deadline) return absl::OkStatus();
    return absl::DeadlineExceededError("the workers do not connect");
  };
  for (size_t worker = 0; worker < workers_.size(); ++worker) {
    absl::optional<Incarnation> suspect;
    auto exchange = workers_[worker].backend->Connect(ViewOf(worker), ended, &suspect);
    if (!exchange.ok()) return exchange.status();
    workers_[worker].exchange = *std::move(exchange);
    workers_[worker].exchange->AddLayout(LayoutId(0), buckets_);
  }
  return absl::OkStatus();
}

void BackendCluster::AddLayout(LayoutId layout, const std::vector<BucketSpec>& buckets) {
  aggregator_->AddLayout(layout, buckets);
  for (const auto& state : aggregators_) state->aggregator->AddLayout(layout, buckets);
  for (WorkerState& worker : workers_) worker.exchange->AddLayout(layout, buckets);
}

View BackendCluster::ViewOf(int worker) const {
  View view = view_;
  view.self = view_.members[worker].incarnation;
  return view;
}

BackendCluster::~BackendCluster() {
  const absl::Status over = absl::CancelledError("the test is over");
  aggregation_service_.Abort(over);
  rendezvous_.Abort(over);
  for (const auto& state : aggregators_) state->service->Abort(over);
  for (WorkerState& worker : workers_) {
    if (worker.exchange != nullptr) worker.exchange->Cancel(over);
  }
  for (WorkerState& worker : workers_) worker.exchange.reset();
  const auto now = std::chrono::system_clock::now();
  for (WorkerState& worker : workers_) {
    if (worker.server != nullptr) worker.server->Shutdown(now);
  }
  for (const auto& state : aggregators_) state->server->Shutdown(now);
  coordinator_->Shutdown(now);
}

// As a coordinator that hears of it does.
void BackendCluster::Cancel(const absl::Status& status) {
  for (WorkerState& worker : workers_) worker.exchange->Cancel(status);
}

absl::Status BackendCluster::RunStepOfWorker(
    int worker, uint64_t step, std::vector<std::vector<std::string>>* data, absl::Duration timeout,
    const std::function<void(int rank, int bucket)>& between) {
  const absl::Time deadline = SteadyNow() + timeout;
  const std::vector<Rank>& ranks = view_.members[worker].ranks;
  Exchange& exchange = *workers_[worker].exchange;
  // Nothing that could pass for a result.
  std::vector<std::string> results;
  for (const BucketSpec& bucket : buckets_) results.emplace_back(bucket.bytes, '\x5a');
  std::vector<std::vector<std::string>> terms;
  for (const Rank rank : ranks) terms.push_back((*data)[rank.value()]);
  BlockingCounter countdown(buckets_.size());
  for (const Rank rank : ranks) {
    for (size_t i = 0; i < buckets_.size(); ++i) {
      const BucketKey key{LayoutId(0), Step(step), Bucket(static_cast<int>(i))};
      std::string* mine = &(*data)[rank.value()][i];
      if (rank == ranks[0]) {
        exchange.Expect(key, BytesOf(&results[i]), deadline,
                        [&](const absl::Status& status) { countdown.Done(status); });
      }
      if (Contributes(buckets_[i], rank)) {
        exchange.Contribute(key, rank, BytesOf(mine));
      }
      if (between) between(rank.value(), static_cast<int>(i));
    }
  }
  absl::Status status = countdown.Wait();
  for (size_t i = 0; i < ranks.size(); ++i) {
    std::vector<std::string>& of_rank = (*data)[ranks[i].value()];
    EXPECT_TRUE(of_rank == terms[i]) << "terms were written to";
    of_rank = results;
  }
  return status;
}

std::vector<absl::Status> BackendCluster::RunStep(
    uint64_t step, std::vector<std::vector<std::string>>* data, absl::Duration timeout,
    const std::function<void(int rank)>& before,
    const std::function<void(int rank, int bucket)>& between) {
  return OnAll(workers_.size(), [&](int worker) {
    if (before) before(view_.members[worker].ranks[0].value());
    const absl::Status status = RunStepOfWorker(worker, step, data, timeout, between);
    if (through_ && !status.ok()) Cancel(status);
    return status;
  });
}

std::vector<absl::Status> BackendCluster::Finish() {
  return OnAll(workers_.size(), [&](int worker) {
    return workers_[worker].exchange->Finish(SteadyNow() + absl::Seconds(10));
  });
}

}  // namespace gradwire
