// Back ends that fold: the same bits whoever sums, over however many connections.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/fold/fold.h"
#include "common/rpc/grpc_server.h"
#include "gradwire/v1/aggregation.grpc.pb.h"
#include "tests/cluster/backend_cluster.h"
#include "tests/support/sealed_chunk.h"

namespace gradwire::aggregators_test {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 3;
constexpr size_t kElements = 300001;

std::vector<std::vector<float>> MakeTerms() {
  std::vector<std::vector<float>> terms(kRanks, std::vector<float>(kElements));
  for (int rank = 0; rank < kRanks; ++rank) {
    for (size_t i = 0; i < kElements; ++i) {
      terms[rank][i] = 1.0f / static_cast<float>(i + 3 * rank + 1);
    }
  }
  return terms;
}

std::vector<float> FoldOf(const std::vector<std::vector<float>>& terms) {
  std::vector<ByteSpans> pieces;
  for (const auto& term : terms) {
    pieces.push_back({{reinterpret_cast<const uint8_t*>(term.data()), 4 * term.size()}});
  }
  std::vector<float> mean(kElements);
  const BucketSpec bucket{4 * kElements, v1::DTYPE_FLOAT32};
  Fold(pieces, bucket.dtype, FoldBlocks({bucket}, kRanks).Cut(Bucket(0), 0, bucket.bytes),
       {reinterpret_cast<uint8_t*>(mean.data()), bucket.bytes});
  return mean;
}

struct Case {
  std::string name;
  std::string backend;
  BackendCluster::Settings settings;
};

class AggregatorsTest : public ::testing::TestWithParam<Case> {};

TEST_P(AggregatorsTest, RunStep_TwoSteps_ExactlyTheFold) {
  BackendCluster cluster(GetParam().backend, kRanks, {{4 * kElements, v1::DTYPE_FLOAT32}},
                         GetParam().settings);
  const std::vector<std::vector<float>> terms = MakeTerms();
  const std::vector<float> expected = FoldOf(terms);
  for (int step = 0; step < 2; ++step) {
    std::vector<std::vector<std::string>> data(kRanks);
    for (int rank = 0; rank < kRanks; ++rank) {
      data[rank] = {std::string(reinterpret_cast<const char*>(terms[rank].data()), 4 * kElements)};
    }
    for (const absl::Status& status : cluster.RunStep(step, &data))
      ASSERT_TRUE(status.ok()) << status;
    for (const auto& rank : data) {
      ASSERT_EQ(std::memcmp(rank[0].data(), expected.data(), 4 * kElements), 0);
    }
  }
  for (const absl::Status& status : cluster.Finish()) EXPECT_TRUE(status.ok()) << status;
}

std::vector<Case> AllCases() {
  return {{"coordinator_1_connection", "coordinator", {1 << 20, 0, 1, v1::DTYPE_FLOAT32}},
          {"coordinator_3_connections", "coordinator", {1 << 20, 0, 3, v1::DTYPE_FLOAT32}},
          {"sharded_1_connection", "sharded", {1 << 20, 0, 1, v1::DTYPE_FLOAT32}},
          {"sharded_2_connections", "sharded", {1 << 16, 0, 2, v1::DTYPE_FLOAT32}},
          {"sharded_1_aggregator", "sharded", {1 << 20, 1, 1, v1::DTYPE_FLOAT32}},
          {"sharded_2_aggregators_2_connections", "sharded", {1 << 18, 2, 2, v1::DTYPE_FLOAT32}},
          {"sharded_4_aggregators", "sharded", {1 << 20, 4, 1, v1::DTYPE_FLOAT32}}};
}

INSTANTIATE_TEST_SUITE_P(AllAggregators, AggregatorsTest, ::testing::ValuesIn(AllCases()),
                         [](const auto& info) { return info.param.name; });

TEST(AggregatorsTest, AllReduce_RankStaysAway_AggregatorsHoldAWindow) {
  BackendCluster cluster("coordinator", 2, {{64 << 20, v1::DTYPE_FLOAT32}});
  std::vector<uint8_t> terms(64 << 20);
  std::vector<uint8_t> mean(64 << 20);
  std::promise<absl::Status> ended;
  const BucketKey key{LayoutId(0), Step(0), Bucket(0)};
  cluster.exchange(0).Expect(key, absl::MakeSpan(mean), SteadyNow() + absl::Milliseconds(500),
                             [&ended](absl::Status status) { ended.set_value(status); });
  cluster.exchange(0).Contribute(key, Rank(0), terms);
  const absl::Status status = ended.get_future().get();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("gradients of rank 1 are missing"));
  EXPECT_LE(cluster.exchange(0).totals().bytes_sent, 4u << 20);
}

// A view of one worker, whose terms are summed at the coordinator.
class SecondViewTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kBytes = 4 * 1000;

  SecondViewTest() {
    server_ = StartGrpcServer("127.0.0.1:0", {&service_}).value();
    BackendOptions options;
    options.coordinator = server_.address;
    options.wire = v1::DTYPE_FLOAT16;
    backend_ = MakeBackend("coordinator", options).value();
    view_.run_id = MakeRunId();
    view_.world_size = 1;
    view_.chunk_bytes = 1 << 20;
    view_.members = {{MakeIncarnation(), "127.0.0.1:1", {Rank(0)}}};
    view_.self = view_.members[0].incarnation;
  }
  ~SecondViewTest() override {
    service_.Abort(absl::CancelledError("the test is over"));
    server_.Shutdown();
  }

  // The exchange of view number `generation`, which begins with `first`.
  std::unique_ptr<Exchange> Connect(uint64_t generation, Step first) {
    view_.generation = Generation(generation);
    view_.first_step = first;
    const std::vector<BucketSpec> buckets = {{kBytes, v1::DTYPE_FLOAT32}};
    auto aggregator = std::make_shared<Aggregator>(view_, Shard(), AggregatorHooks());
    aggregator->AddLayout(LayoutId(0), WireSpecs(buckets, v1::DTYPE_FLOAT16));
    service_.Serve(aggregator);
    absl::optional<Incarnation> suspect;
    const Backend::Ended never = [] { return absl::OkStatus(); };
    auto exchange = backend_->Connect(view_, never, &suspect).value();
    exchange->AddLayout(LayoutId(0), buckets);
    return exchange;
  }
  static void RunStep(Exchange* exchange, Step step, float value) {
    std::vector<float> terms(kBytes / 4, value), mean(kBytes / 4);
    const auto bytes_of = [](std::vector<float>* values) {
      return absl::Span<uint8_t>(reinterpret_cast<uint8_t*>(values->data()), kBytes);
    };
    std::vector<WholeBucket> buckets(1);
    buckets[0].result = bytes_of(&mean);
    buckets[0].terms.emplace_back(Rank(0), bytes_of(&terms));
    WholeStep whole(exchange, LayoutId(0), step, buckets, SteadyNow() + absl::Seconds(60));
    const absl::Status status = whole.Wait();
    EXPECT_TRUE(status.ok()) << status;
  }
  // When all that was sent is counted.
  static TransferTotals TotalsAtTheEnd(Exchange* exchange) {
    EXPECT_TRUE(exchange->Finish(SteadyNow() + absl::Seconds(60)).ok());
    return exchange->totals();
  }

  AggregationService service_{AggregationObserver()};
  GrpcServer server_;
  std::unique_ptr<Backend> backend_;
  View view_;
};

// The back end outlives its views; the worker adds up the totals of all of them.
TEST_F(SecondViewTest, Totals_AfterALoss_AreThoseOfTheNewViewAlone) {
  auto exchange = Connect(1, Step(0));
  for (const uint64_t step : {0, 1}) RunStep(exchange.get(), Step(step), 1e6f);
  const TransferTotals first = TotalsAtTheEnd(exchange.get());
  EXPECT_EQ(first.bytes_sent, 2 * (kBytes / 2));
  EXPECT_EQ(first.bytes_received, 2 * (kBytes / 2));
  EXPECT_EQ(first.overflow_steps, 2u);
  exchange.reset();
  exchange = Connect(2, Step(1));
  EXPECT_EQ(exchange->totals().bytes_sent, 0u);
  EXPECT_EQ(exchange->totals().bytes_received, 0u);
  RunStep(exchange.get(), Step(1), 1);
  const TransferTotals second = TotalsAtTheEnd(exchange.get());
  EXPECT_EQ(second.bytes_sent, kBytes / 2);
  EXPECT_EQ(second.bytes_received, kBytes / 2);
  EXPECT_EQ(second.overflow_steps, 0u);
}

// An aggregator that hangs: its process is there, and no call ends.
class HangingAggregation : public v1::Aggregation::Service {
  grpc::Status Gather(grpc::ServerContext* context, grpc::ServerReader<v1::Chunk>*,
                      v1::GatherReply*) override {
    return Hang(*context);
  }
  grpc::Status Scatter(grpc::ServerContext* context, const v1::ScatterRequest*,
                       grpc::ServerWriter<v1::Chunk>*) override {
    return Hang(*context);
  }
  grpc::Status Missing(grpc::ServerContext* context, const v1::MissingRequest*,
                       v1::MissingReply*) override {
    return Hang(*context);
  }
  static grpc::Status Hang(const grpc::ServerContext& context) {
    while (!context.IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return grpc::Status::CANCELLED;
  }
};

TEST(AggregatorsTest, AllReduce_AggregatorHangs_DeadlineEndsItAndNamesTheAggregator) {
  HangingAggregation aggregation;
  GrpcServer server = StartGrpcServer("127.0.0.1:0", {&aggregation}).value();
  BackendOptions options;
  options.coordinator = server.address;
  View view;
  view.world_size = 1;
  view.chunk_bytes = 1 << 20;
  view.members = {{MakeIncarnation(), "127.0.0.1:1", {Rank(0)}}};
  view.self = view.members[0].incarnation;
  const auto backend = MakeBackend("coordinator", options).value();
  absl::optional<Incarnation> suspect;
  const Backend::Ended never = [] { return absl::OkStatus(); };
  const auto exchange = backend->Connect(view, never, &suspect).value();
  exchange->AddLayout(LayoutId(0), {{4, v1::DTYPE_FLOAT32}});
  const std::vector<uint8_t> terms(4);
  std::vector<uint8_t> mean(4);
  std::promise<absl::Status> done;
  std::future<absl::Status> ended = done.get_future();
  const BucketKey key{LayoutId(0), Step(0), Bucket(0)};
  exchange->Expect(key, absl::MakeSpan(mean), SteadyNow() + absl::Milliseconds(100),
                   [&done](const absl::Status& status) { done.set_value(status); });
  exchange->Contribute(key, Rank(0), terms);
  EXPECT_EQ(ended.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  server.Shutdown();  // which ends it in any case
  const absl::Status status = ended.get();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("coordinator " + server.address + " does not answer"));
}

// Of two separate aggregators one lacks the terms of rank 1, and the other one hangs.
TEST(AggregatorsTest, AllReduce_RankIsMissingAndAnAggregatorHangs_DeadlineNamesBoth) {
  constexpr uint64_t kBytes = 4 * 100000;
  HangingAggregation hanging;
  GrpcServer silent = StartGrpcServer("127.0.0.1:0", {&hanging}).value();
  AggregationService service{AggregationObserver()};
  GrpcServer server = StartGrpcServer("127.0.0.1:0", {&service}).value();
  View view;
  view.run_id = MakeRunId();
  view.generation = Generation(1);
  view.world_size = 2;
  view.chunk_bytes = 1 << 16;
  for (const int rank : {0, 1}) {
    view.members.push_back({MakeIncarnation(), "127.0.0.1:1", {Rank(rank)}});
  }
  view.self = view.members[0].incarnation;
  view.aggregators = {server.address, silent.address};
  const std::vector<BucketSpec> buckets = {{kBytes, v1::DTYPE_FLOAT32}};
  const auto aggregator = std::make_shared<Aggregator>(view, Shard{2, {0}}, AggregatorHooks());
  aggregator->AddLayout(LayoutId(0), buckets);
  service.Serve(aggregator);
  const auto backend = MakeBackend("sharded", BackendOptions()).value();
  const std::vector<uint8_t> terms(kBytes);
  std::vector<uint8_t> mean(kBytes);
  std::promise<absl::Status> ended;
  absl::optional<Incarnation> unreached;
  const Backend::Ended never = [] { return absl::OkStatus(); };
  std::unique_ptr<Exchange> exchange = backend->Connect(view, never, &unreached).value();
  exchange->AddLayout(LayoutId(0), buckets);
  const BucketKey key{LayoutId(0), Step(0), Bucket(0)};
  exchange->Expect(key, absl::MakeSpan(mean), SteadyNow() + absl::Milliseconds(500),
                   [&ended](const absl::Status& status) { ended.set_value(status); });
  exchange->Contribute(key, Rank(0), terms);
  const absl::Status status = ended.get_future().get();
  const absl::optional<Suspect> suspect = exchange->suspect();
  exchange.reset();
  service.Abort(absl::CancelledError("the test is over"));
  server.Shutdown();
  silent.Shutdown();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("step 0, bucket 0: gradients of rank 1 are missing; aggregator 1 (" +
                        silent.address + ") does not answer: "));
  ASSERT_TRUE(suspect.has_value());
  EXPECT_EQ(suspect->worker, view.members[1].incarnation);
  EXPECT_TRUE(suspect->others.empty());
}

// A worker alone, with separate aggregators that hang, and a bucket with a part for each of them.
class HangingAggregatorsTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kBytes = 4 * 300000;

  ~HangingAggregatorsTest() override {
    exchange_.reset();
    for (GrpcServer& server : servers_) server.Shutdown();
  }
  void Connect(int aggregators) {
    view_.run_id = MakeRunId();
    view_.generation = Generation(1);
    view_.world_size = 1;
    view_.chunk_bytes = 1 << 16;
    view_.members = {{MakeIncarnation(), "127.0.0.1:1", {Rank(0)}}};
    view_.self = view_.members[0].incarnation;
    for (int i = 0; i < aggregators; ++i) {
      servers_.push_back(StartGrpcServer("127.0.0.1:0", {&hanging_}).value());
      view_.aggregators.push_back(servers_.back().address);
    }
    absl::optional<Incarnation> unreached;
    exchange_ = backend_
                    ->Connect(
                        view_, [] { return absl::OkStatus(); }, &unreached)
                    .value();
    exchange_->AddLayout(LayoutId(0), {{kBytes, v1::DTYPE_FLOAT32}});
  }

  HangingAggregation hanging_;
  std::vector<GrpcServer> servers_;
  View view_;
  const std::unique_ptr<Backend> backend_ = MakeBackend("sharded", BackendOptions()).value();
  std::unique_ptr<Exchange> exchange_;
};

TEST_F(HangingAggregatorsTest, Cancel_WhileFinishAwaitsTheirReplies_EndsItWithTheCause) {
  const absl::Status lost = absl::AbortedError("rank 1 was lost");
  Connect(2);
  auto finished = std::async(std::launch::async,
                             [this] { return exchange_->Finish(SteadyNow() + absl::Minutes(2)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  exchange_->Cancel(lost);
  ASSERT_EQ(finished.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_EQ(finished.get(), lost);
}

TEST_F(HangingAggregatorsTest, Finish_UntilTheDeadline_SaysWhatItAwaited) {
  Connect(2);
  EXPECT_EQ(
      exchange_->Finish(SteadyNow() + absl::Milliseconds(100)),
      absl::DeadlineExceededError("an aggregator has not acknowledged all gradients in time"));
}

// Whoever waits for the step gives it up two seconds after its deadline.
TEST_F(HangingAggregatorsTest, Deadline_SeveralHang_NamesEachInTime) {
  Connect(4);
  const std::vector<uint8_t> terms(kBytes);
  std::vector<uint8_t> mean(kBytes);
  WholeStep step(exchange_.get(), LayoutId(0), Step(0),
                 {{{absl::MakeSpan(mean), {{Rank(0), absl::MakeConstSpan(terms)}}}}},
                 SteadyNow() + absl::Milliseconds(100));
  const absl::Status status = step.Wait();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  for (const GrpcServer& server : servers_) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(server.address));
  }
}

// An aggregator that takes all terms, lacks none, and sends no mean: its stream of means stays
// open, or ends.
class TakingAggregation : public v1::Aggregation::Service {
 public:
  explicit TakingAggregation(bool ends) : ends_(ends) {}

  grpc::Status Gather(grpc::ServerContext*, grpc::ServerReader<v1::Chunk>* reader,
                      v1::GatherReply*) override {
    v1::Chunk term;
    while (reader->Read(&term)) {
    }
    return grpc::Status::OK;
  }
  grpc::Status Scatter(grpc::ServerContext* context, const v1::ScatterRequest*,
                       grpc::ServerWriter<v1::Chunk>*) override {
    while (!ends_ && !context->IsCancelled()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return grpc::Status::OK;
  }
  grpc::Status Missing(grpc::ServerContext*, const v1::MissingRequest*,
                       v1::MissingReply*) override {
    return grpc::Status::OK;
  }

 private:
  const bool ends_;
};

// How a bucket ends whose terms go to an aggregator at `address`.
absl::Status AverageAt(const std::string& address, absl::Duration timeout) {
  BackendOptions options;
  options.coordinator = address;
  View view;
  view.world_size = 1;
  view.chunk_bytes = 64;
  view.members = {{MakeIncarnation(), "127.0.0.1:1", {Rank(0)}}};
  view.self = view.members[0].incarnation;
  const auto backend = MakeBackend("coordinator", options).value();
  const std::vector<uint8_t> terms(4);
  std::vector<uint8_t> mean(4);
  std::promise<absl::Status> ended;
  absl::optional<Incarnation> suspect;
  const Backend::Ended never = [] { return absl::OkStatus(); };
  const std::unique_ptr<Exchange> exchange = backend->Connect(view, never, &suspect).value();
  exchange->AddLayout(LayoutId(0), {{terms.size(), v1::DTYPE_FLOAT32}});
  const BucketKey key{LayoutId(0), Step(0), Bucket(0)};
  exchange->Expect(key, absl::MakeSpan(mean), SteadyNow() + timeout,
                   [&ended](const absl::Status& status) { ended.set_value(status); });
  exchange->Contribute(key, Rank(0), terms);
  return ended.get_future().get();
}

TEST(AggregatorsTest, AllReduce_AggregatorHasAllTermsAndSendsNoMean_DeadlineSaysSo) {
  TakingAggregation aggregation(/*ends=*/false);
  GrpcServer server = StartGrpcServer("127.0.0.1:0", {&aggregation}).value();
  const absl::Status status = AverageAt(server.address, absl::Milliseconds(200));
  server.Shutdown();
  EXPECT_EQ(status,
            absl::DeadlineExceededError("step 0, bucket 0: the mean did not arrive in time"));
}

// Without an error the bucket would wait for its deadline.
TEST(AggregatorsTest, AllReduce_AggregatorEndsItsStreamInOrder_EndsWithAnError) {
  TakingAggregation aggregation(/*ends=*/true);
  GrpcServer server = StartGrpcServer("127.0.0.1:0", {&aggregation}).value();
  const absl::Status status = AverageAt(server.address, absl::Seconds(20));
  server.Shutdown();
  EXPECT_EQ(status, absl::UnavailableError("Scatter from coordinator " + server.address +
                                           ": the peer ended the stream early"));
}

// An aggregator that takes all terms, and sends the first of two means twice.
class RepeatingAggregation : public v1::Aggregation::Service {
 public:
  static constexpr uint64_t kPiece = 64;

  explicit RepeatingAggregation(const View& view) {
    mean_.set_run_id(ToBytes(view.run_id));
    mean_.set_total(2 * kPiece);
    mean_.set_dtype(v1::DTYPE_FLOAT32);
    mean_.set_payload(std::string(kPiece, '1'));
    SealChunk(&mean_);
  }
  grpc::Status Gather(grpc::ServerContext*, grpc::ServerReader<v1::Chunk>* reader,
                      v1::GatherReply*) override {
    v1::Chunk term;
    while (reader->Read(&term)) {
    }
    return grpc::Status::OK;
  }
  grpc::Status Scatter(grpc::ServerContext* context, const v1::ScatterRequest*,
                       grpc::ServerWriter<v1::Chunk>* writer) override {
    for (int i = 0; i < 2; ++i) writer->Write(mean_);
    while (!context->IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return grpc::Status::CANCELLED;
  }

 private:
  v1::Chunk mean_;
};

// Else the bucket would be over without its second half.
TEST(AggregatorsTest, AllReduce_MeanComesTwice_EndsWithAnError) {
  View view;
  view.world_size = 1;
  view.chunk_bytes = RepeatingAggregation::kPiece;
  view.members = {{MakeIncarnation(), "127.0.0.1:1", {Rank(0)}}};
  view.self = view.members[0].incarnation;
  RepeatingAggregation aggregation(view);
  GrpcServer server = StartGrpcServer("127.0.0.1:0", {&aggregation}).value();
  BackendOptions options;
  options.coordinator = server.address;
  const auto backend = MakeBackend("coordinator", options).value();
  const std::vector<uint8_t> terms(2 * RepeatingAggregation::kPiece);
  std::vector<uint8_t> mean(terms.size());
  std::promise<absl::Status> ended;
  absl::optional<Incarnation> suspect;
  const Backend::Ended never = [] { return absl::OkStatus(); };
  std::unique_ptr<Exchange> exchange = backend->Connect(view, never, &suspect).value();
  exchange->AddLayout(LayoutId(0), {{terms.size(), v1::DTYPE_FLOAT32}});
  const BucketKey key{LayoutId(0), Step(0), Bucket(0)};
  exchange->Expect(key, absl::MakeSpan(mean), SteadyNow() + absl::Seconds(60),
                   [&ended](const absl::Status& status) { ended.set_value(status); });
  exchange->Contribute(key, Rank(0), terms);
  const absl::Status status = ended.get_future().get();
  exchange.reset();
  server.Shutdown();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected each piece of the bucket once"));
}

}  // namespace
}  // namespace gradwire::aggregators_test
