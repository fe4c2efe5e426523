#include "tests/cluster/backend_cluster.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "tests/cluster/countdown.h"

namespace gradwire {
namespace {

std::unique_ptr<grpc::Server> Serve(const std::vector<grpc::Service*>& services,
                                    std::string* address) {
  grpc::ServerBuilder builder;
  ConfigureServer(&builder);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  for (grpc::Service* service : services) builder.RegisterService(service);
  auto server = builder.BuildAndStart();
  *address = absl::StrCat("127.0.0.1:", port);
  return server;
}

// Runs `body` for all ranks at once.
std::vector<absl::Status> OnAllRanks(size_t ranks, const std::function<absl::Status(int)>& body) {
  std::vector<absl::Status> statuses(ranks);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { statuses[rank] = body(static_cast<int>(rank)); });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

}  // namespace

BackendCluster::BackendCluster(const std::string& backend, int world_size,
                               std::vector<BucketSpec> buckets, const Settings& settings)
    : buckets_(std::move(buckets)),
      run_id_(MakeRunId()),
      aggregation_service_(&aggregator_, {}),
      rendezvous_service_(run_id_, &rendezvous_) {
  coordinator_ = Serve({&aggregation_service_, &rendezvous_service_}, &coordinator_address_);
  view_ = {run_id_, CoordinatorEpoch(1), Generation(1), world_size, Rank(0),
           {},      settings.chunk_bytes};
  StartAggregators(settings.aggregators);
  BackendOptions options;
  options.coordinator = coordinator_address_;
  options.connections = settings.connections;
  options.wire = settings.wire;
  for (int rank = 0; rank < world_size; ++rank) {
    RankState state;
    state.backend = MakeBackend(backend, options).value();
    Member member{MakeIncarnation(), "127.0.0.1:0", {Rank(rank)}};
    if (grpc::Service* service = state.backend->service(); service != nullptr) {
      state.server = Serve({service}, &member.address);
    }
    view_.members.push_back(member);
    ranks_.push_back(std::move(state));
  }
  const std::vector<BucketSpec> wire_specs = WireSpecs(buckets_, settings.wire);
  aggregator_.Configure(view_, wire_specs, Share());
  for (int i = 0; i < settings.aggregators; ++i) {
    aggregators_[i]->aggregator.Configure(view_, wire_specs, {settings.aggregators, i});
  }
  for (int rank = 0; rank < world_size; ++rank) {
    View view = view_;
    view.rank = Rank(rank);
    EXPECT_TRUE(ranks_[rank].backend->OnView(view, buckets_).ok());
  }
}

void BackendCluster::StartAggregators(int count) {
  for (int i = 0; i < count; ++i) {
    aggregators_.push_back(std::make_unique<AggregatorState>());
    AggregatorState& state = *aggregators_.back();
    state.service = std::make_unique<AggregationService>(&state.aggregator, AggregationObserver());
    view_.aggregators.emplace_back();
    state.server = Serve({state.service.get()}, &view_.aggregators.back());
  }
}

BackendCluster::~BackendCluster() {
  const absl::Status over = absl::CancelledError("the test is over");
  aggregator_.Abort(over);
  rendezvous_.Abort(over);
  for (const auto& state : aggregators_) state->aggregator.Abort(over);
  for (RankState& rank : ranks_) rank.backend->Cancel(over);
  const auto now = std::chrono::system_clock::now();
  for (RankState& rank : ranks_) {
    if (rank.server != nullptr) rank.server->Shutdown(now);
  }
  for (const auto& state : aggregators_) state->server->Shutdown(now);
  coordinator_->Shutdown(now);
}

absl::Status BackendCluster::RunStepOfRank(
    int rank, uint64_t step, std::vector<std::string>* data, absl::Duration timeout,
    const std::function<void(int rank, int bucket)>& between) {
  const absl::Time deadline = absl::Now() + timeout;
  std::vector<std::vector<float>> terms(data->size());
  std::vector<std::vector<float>> means(data->size());
  Countdown countdown(data->size());
  auto done = [&](const absl::Status& status) { countdown.Done(status); };
  for (size_t i = 0; i < data->size(); ++i) {
    std::string& bytes = (*data)[i];
    const ReduceKey key{Step(step), Bucket(static_cast<int>(i))};
    if (buckets_[i].dtype == v1::DTYPE_BYTES) {
      auto* memory = reinterpret_cast<uint8_t*>(&bytes[0]);
      ranks_[rank].backend->BroadcastAsync(key, {memory, bytes.size()}, deadline, done);
    } else {
      terms[i].resize(bytes.size() / 4);
      means[i].resize(bytes.size() / 4);
      std::memcpy(terms[i].data(), bytes.data(), bytes.size());
      ranks_[rank].backend->AllReduceAsync(key, terms[i], absl::MakeSpan(means[i]), deadline, done);
    }
    if (between) between(rank, static_cast<int>(i));
  }
  absl::Status status = countdown.Wait();
  for (size_t i = 0; i < data->size(); ++i) {
    if (buckets_[i].dtype == v1::DTYPE_BYTES) continue;
    EXPECT_EQ(std::memcmp(terms[i].data(), (*data)[i].data(), (*data)[i].size()), 0)
        << "terms were written to";
    std::memcpy(&(*data)[i][0], means[i].data(), (*data)[i].size());
  }
  return status;
}

std::vector<absl::Status> BackendCluster::RunStep(
    uint64_t step, std::vector<std::vector<std::string>>* data, absl::Duration timeout,
    const std::function<void(int rank)>& before,
    const std::function<void(int rank, int bucket)>& between) {
  return OnAllRanks(ranks_.size(), [&](int rank) {
    if (before) before(rank);
    return RunStepOfRank(rank, step, &(*data)[rank], timeout, between);
  });
}

std::vector<absl::Status> BackendCluster::Finish() {
  return OnAllRanks(ranks_.size(), [&](int rank) {
    return ranks_[rank].backend->Finish(absl::Now() + absl::Seconds(10));
  });
}

}  // namespace gradwire
