// What an engine's back end does around it: order, deadlines, ends. Gloo's engine
// itself runs in backend_test.cc; here it is mostly one that does as it is told.

#include "worker/backends/engines/engine_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <future>
#include <utility>

#include "common/base/clock.h"
#include "common/rpc/grpc_server.h"
#include "coordinator/rendezvous/rendezvous_service.h"
#include "tests/cluster/backend_cluster.h"
#include "tests/conformance/fake_engine.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Optional;

const absl::Status kOver = absl::AbortedError("rank 1 was lost in step 7");

absl::Span<uint8_t> BytesOf(std::vector<float>* values) {
  return {reinterpret_cast<uint8_t*>(values->data()), values->size() * sizeof(float)};
}

constexpr absl::Duration kLong = absl::Seconds(60);
constexpr auto kInstant = std::chrono::milliseconds(50);

// Rank 0 of three, with an engine that does as it is told, two buckets of floats, and
// bytes of rank 0 and of rank 1.
class EngineExchangeTest : public ::testing::Test {
 protected:
  EngineExchangeTest() {
    server_ = StartGrpcServer("127.0.0.1:0", {&service_}).value();
    options_.coordinator = server_.address;
    view_.run_id = run_id_;
    view_.generation = Generation(1);
    view_.world_size = 3;
    for (int rank = 0; rank < 3; ++rank) {
      view_.members.push_back({MakeIncarnation(), "10.10.1.1:29500", {Rank(rank)}});
    }
    view_.self = view_.members[0].incarnation;
  }
  ~EngineExchangeTest() override {
    exchange_.reset();
    store_.Abort(absl::CancelledError("the test is over"));
    server_.server->Shutdown();
  }

  // The engine's Connect waits for `peer_key`, if it is not empty.
  void Start(const std::string& peer_key = "") {
    auto engine = std::make_unique<FakeEngine>(peer_key);
    engine_ = engine.get();
    exchange_ = std::make_unique<EngineExchange>("gloo", view_, options_, std::move(engine));
    ASSERT_TRUE(exchange_->Start().ok());
    exchange_->AddLayout(LayoutId(0), buckets_);
  }

  static BucketKey Key(int bucket) { return {LayoutId(0), Step(0), Bucket(bucket)}; }

  std::future<absl::Status> Expect(int bucket, absl::Duration timeout = kLong) {
    auto promise = std::make_shared<std::promise<absl::Status>>();
    results_[bucket].resize(buckets_[bucket].bytes / sizeof(float));
    exchange_->Expect(Key(bucket), BytesOf(&results_[bucket]), SteadyNow() + timeout,
                      [promise](absl::Status status) { promise->set_value(std::move(status)); });
    return promise->get_future();
  }
  void Contribute(int bucket) {
    exchange_->Contribute(Key(bucket), Rank(0), BytesOf(&terms_).first(buckets_[bucket].bytes));
  }
  std::future<absl::Status> AllReduce(int bucket, absl::Duration timeout) {
    std::future<absl::Status> done = Expect(bucket, timeout);
    Contribute(bucket);
    return done;
  }

  const RunId run_id_ = MakeRunId();
  RendezvousStore store_;
  RendezvousService service_{run_id_, &store_};
  GrpcServer server_;
  BackendOptions options_;
  View view_;
  FakeEngine* engine_ = nullptr;
  std::unique_ptr<EngineExchange> exchange_;
  const std::vector<BucketSpec> buckets_ = {{12, v1::DTYPE_FLOAT32},
                                            {16, v1::DTYPE_FLOAT32},
                                            {8, v1::DTYPE_BYTES, Rank(0)},
                                            {8, v1::DTYPE_BYTES, Rank(1)}};
  std::vector<float> terms_ = {3, 6, 9, 12};
  std::vector<float> results_[4];
};

TEST_F(EngineExchangeTest, Start_BindsToTheAdvertisedHost) {
  Start();
  EXPECT_EQ(engine_->bound_to, "10.10.1.1");
}

TEST_F(EngineExchangeTest, AllReduce_EngineHasSummed_ResultIsTheSumOverTheWorldSize) {
  Start();
  auto done = AllReduce(0, kLong);
  engine_->End(0, absl::OkStatus());
  EXPECT_TRUE(done.get().ok());
  EXPECT_THAT(results_[0], ElementsAre(1, 2, 3));
  EXPECT_THAT(terms_, ElementsAre(3, 6, 9, 12));
}

TEST_F(EngineExchangeTest, AllReduce_TwoBuckets_BothAreUnderWayInTheOrderExpected) {
  Start();
  auto first = Expect(0);
  auto second = Expect(1);
  Contribute(1);
  EXPECT_EQ(second.wait_for(kInstant), std::future_status::timeout);
  Contribute(0);
  engine_->End(1, absl::OkStatus());
  EXPECT_TRUE(second.get().ok());
  EXPECT_THAT(engine_->sizes(), ElementsAre(12, 16));
  engine_->End(0, absl::OkStatus());
  EXPECT_TRUE(first.get().ok());
}

TEST_F(EngineExchangeTest, Gathers_AllReduce_GathersAndThenScatters) {
  options_.gathers = true;
  Start();
  auto done = AllReduce(0, kLong);
  engine_->End(0, absl::OkStatus());
  engine_->End(1, absl::OkStatus());
  EXPECT_TRUE(done.get().ok());
  EXPECT_THAT(results_[0], ElementsAre(3, 6, 9));  // of three ranks with the same terms
  EXPECT_EQ(exchange_->totals().bytes_received, 2 * 12u);
  EXPECT_EQ(exchange_->totals().bytes_sent, 2 * 12u);
}

// All but rank 0 send their own terms and receive the mean.
TEST_F(EngineExchangeTest, Gathers_OfAnotherRank_CountsItsTermsAndTheMean) {
  options_.gathers = true;
  view_.self = view_.members[1].incarnation;
  Start();
  auto done = AllReduce(0, kLong);
  engine_->End(0, absl::OkStatus());
  engine_->End(1, absl::OkStatus());
  EXPECT_TRUE(done.get().ok());
  EXPECT_EQ(exchange_->totals().bytes_received, 12u);
  EXPECT_EQ(exchange_->totals().bytes_sent, 12u);
}

TEST_F(EngineExchangeTest, Gathers_GatherFails_EndsWithoutAScatter) {
  options_.gathers = true;
  Start();
  auto done = AllReduce(0, kLong);
  engine_->End(0, absl::UnavailableError("Connection closed by peer"));
  EXPECT_EQ(done.get().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(engine_->sizes(), ElementsAre(12));
}

TEST_F(EngineExchangeTest, Gathers_Cancel_EndsTheGather) {
  options_.gathers = true;
  Start();
  auto done = AllReduce(0, kLong);
  engine_->WaitForOperations(1);
  exchange_->Cancel(kOver);
  engine_->EndAfterAbort(0);
  EXPECT_EQ(done.get(), kOver);
}

TEST_F(EngineExchangeTest, Broadcast_OfThisRank_EngineGetsItsBytes) {
  Start();
  auto done = Expect(2);
  Contribute(2);
  engine_->End(0, absl::OkStatus());
  EXPECT_TRUE(done.get().ok());
  EXPECT_THAT(results_[2], ElementsAre(3, 6));
  EXPECT_THAT(engine_->roots, ElementsAre(0));
}

TEST_F(EngineExchangeTest, Broadcast_OfAnotherRank_UnderWayWithNothingHandedIn) {
  Start();
  auto done = Expect(3);
  engine_->End(0, absl::OkStatus());
  EXPECT_TRUE(done.get().ok());
  EXPECT_THAT(engine_->roots, ElementsAre(1));
}

TEST_F(EngineExchangeTest, AllReduce_DeadlinePasses_NamesTheRanksThatAreBehind) {
  ASSERT_TRUE(store_.Set("engine/1/handed-in/1", "1").ok());
  ASSERT_TRUE(store_.Set("engine/1/handed-in/2", "0").ok());
  Start();
  auto done = AllReduce(0, absl::Milliseconds(50));
  engine_->EndAfterAbort(0);
  EXPECT_EQ(done.get(), absl::DeadlineExceededError("step 0, bucket 0: not averaged by the "
                                                    "deadline; missing: rank 2 (10.10.1.1:29500)"));
}

// Rank 2 has contributed the first bucket alone.
TEST_F(EngineExchangeTest, AllReduce_DeadlineOfASecondBucketPasses_NamesWhoLacksThatOne) {
  ASSERT_TRUE(store_.Set("engine/1/handed-in/1", "2").ok());
  ASSERT_TRUE(store_.Set("engine/1/handed-in/2", "1").ok());
  Start();
  auto first = AllReduce(0, kLong);
  engine_->End(0, absl::OkStatus());
  ASSERT_TRUE(first.get().ok());
  auto second = AllReduce(1, absl::Milliseconds(50));
  engine_->EndAfterAbort(1);
  EXPECT_EQ(second.get(),
            absl::DeadlineExceededError("step 0, bucket 1: not averaged by the deadline; missing: "
                                        "rank 2 (10.10.1.1:29500)"));
}

TEST_F(EngineExchangeTest, AllReduce_DeadlinePassesForTwoRanks_BothAreSuspects) {
  Start();
  auto done = AllReduce(0, absl::Milliseconds(50));
  engine_->EndAfterAbort(0);
  EXPECT_TRUE(absl::IsDeadlineExceeded(done.get()));
  const absl::optional<Suspect> suspect = exchange_->suspect();
  ASSERT_TRUE(suspect.has_value());
  EXPECT_EQ(suspect->worker, view_.members[1].incarnation);
  EXPECT_THAT(suspect->others, ElementsAre(view_.members[2].incarnation));
}

TEST_F(EngineExchangeTest, AllReduce_DeadlinePassesWithNobodyBehind_SaysSo) {
  ASSERT_TRUE(store_.Set("engine/1/handed-in/1", "2").ok());
  ASSERT_TRUE(store_.Set("engine/1/handed-in/2", "1").ok());
  Start();
  auto done = AllReduce(0, absl::Milliseconds(50));
  engine_->EndAfterAbort(0);
  EXPECT_EQ(done.get(),
            absl::DeadlineExceededError("step 0, bucket 0: not averaged by the deadline; all ranks "
                                        "have contributed, but gloo has not finished"));
}

TEST_F(EngineExchangeTest, AllReduce_DeadlinePassesWhileConnecting_DeadlineExceeded) {
  Start("peer");
  const absl::Status status = AllReduce(0, absl::Milliseconds(50)).get();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("missing: rank 1 (10.10.1.1:29500), rank"));
}

TEST_F(EngineExchangeTest, AllReduce_CoordinatorDoesNotAnswerAtTheDeadline_SaysSo) {
  Start();
  auto done = AllReduce(0, absl::Milliseconds(300));
  server_.server->Shutdown();
  engine_->EndAfterAbort(0);
  const absl::Status status = done.get();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rendezvous at coordinator 127.0.0.1:"));
}

TEST_F(EngineExchangeTest, AllReduce_ConnectionBreaks_UnavailableAndSuspectNameThePeer) {
  Start();
  engine_->broken = {2};
  auto done = AllReduce(0, kLong);
  engine_->End(0, absl::UnavailableError("Connection closed by peer"));
  EXPECT_EQ(done.get(), absl::UnavailableError("step 0, bucket 0: gloo lost its connection to rank "
                                               "2 (10.10.1.1:29500): Connection closed by peer"));
  ASSERT_TRUE(exchange_->suspect().has_value());
  EXPECT_EQ(exchange_->suspect()->worker, view_.members[2].incarnation);
}

TEST_F(EngineExchangeTest, AllReduce_SeveralConnectionsBreak_NamesAllAndSuspectsNone) {
  Start();
  engine_->broken = {1, 2};
  auto done = AllReduce(0, kLong);
  engine_->End(0, absl::UnavailableError("Connection closed by peer"));
  EXPECT_THAT(std::string(done.get().message()),
              HasSubstr("rank 1 (10.10.1.1:29500), rank 2 (10.10.1.1:29500)"));
  EXPECT_FALSE(exchange_->suspect().has_value());
}

TEST_F(EngineExchangeTest, AllReduce_PeerClosedBecauseItLostAnother_OnlyTheOtherIsSuspected) {
  ASSERT_TRUE(store_.Set("engine/1/lost-a-peer/1", "").ok());
  Start();
  engine_->broken = {1, 2};
  auto done = AllReduce(0, kLong);
  engine_->End(0, absl::UnavailableError("Connection closed by peer"));
  EXPECT_THAT(std::string(done.get().message()),
              HasSubstr("lost its connection to rank 2 (10.10.1.1:29500): "));
  ASSERT_TRUE(exchange_->suspect().has_value());
  EXPECT_EQ(exchange_->suspect()->worker, view_.members[2].incarnation);
  EXPECT_TRUE(store_.Wait({"engine/1/lost-a-peer/0"}, absl::InfinitePast()).ok());
}

TEST_F(EngineExchangeTest, AllReduce_AfterABreak_EndsWithTheSameStatus) {
  Start();
  auto first = AllReduce(0, kLong);
  engine_->End(0, absl::UnavailableError("Connection closed by peer"));
  const absl::Status status = first.get();
  EXPECT_EQ(AllReduce(1, kLong).get(), status);
  EXPECT_EQ(exchange_->Finish(SteadyNow() + kLong), status);
}

TEST_F(EngineExchangeTest, Cancel_OperationUnderWay_DoneRunsWhenTheEngineIsThrough) {
  Start();
  auto done = AllReduce(0, kLong);
  engine_->WaitForOperations(1);
  exchange_->Cancel(kOver);
  EXPECT_EQ(done.wait_for(kInstant), std::future_status::timeout);
  engine_->EndAfterAbort(0);
  EXPECT_EQ(done.get(), kOver);
}

TEST_F(EngineExchangeTest, Cancel_WhileConnecting_EndsWithReason) {
  Start("peer");
  auto done = AllReduce(0, kLong);
  exchange_->Cancel(kOver);
  EXPECT_EQ(done.get(), kOver);
}

TEST_F(EngineExchangeTest, Finish_EngineWaitsInVain_StatusNamesTheBackEnd) {
  Start();
  engine_->finish_status = absl::DeadlineExceededError("not all ranks have finished");
  EXPECT_EQ(exchange_->Finish(SteadyNow() + kLong),
            absl::DeadlineExceededError("gloo: not all ranks have finished"));
}

TEST_F(EngineExchangeTest, Finish_AfterCancel_EndsWithReasonAndAsksNoEngine) {
  Start();
  exchange_->Cancel(kOver);
  EXPECT_EQ(exchange_->Finish(SteadyNow() + kLong), kOver);
}

TEST_F(EngineExchangeTest, Totals_AfterAnAllReduce_AreThoseOfARing) {
  Start();
  auto done = AllReduce(0, kLong);
  engine_->End(0, absl::OkStatus());
  ASSERT_TRUE(done.get().ok());
  EXPECT_EQ(exchange_->totals().bytes_sent, 2 * 12 * 2 / 3);
  EXPECT_EQ(exchange_->totals().bytes_received, 2 * 12 * 2 / 3);
}

TEST(EngineExchangeTotals, Broadcast_FiveRanks_EachRankButTheRootReceivesOnce) {
  BackendCluster cluster("gloo", 5, {{100, v1::DTYPE_BYTES, Rank(3)}});
  std::vector<std::vector<std::string>> data(5, {std::string(100, 'x')});
  for (const absl::Status& status : cluster.RunStep(0, &data)) ASSERT_TRUE(status.ok()) << status;
  uint64_t sent = 0;
  for (int rank = 0; rank < 5; ++rank) {
    sent += cluster.exchange(rank).totals().bytes_sent;
    EXPECT_EQ(cluster.exchange(rank).totals().bytes_received, rank == 3 ? 0 : 100) << rank;
  }
  EXPECT_EQ(sent, 400);
}

// Each of them may have closed its connection for the other's sake.
TEST_F(EngineExchangeTest, AllReduce_BothPeersHaveLostAnother_NamesBothAndSuspectsNone) {
  ASSERT_TRUE(store_.Set("engine/1/lost-a-peer/1", "").ok());
  ASSERT_TRUE(store_.Set("engine/1/lost-a-peer/2", "").ok());
  Start();
  engine_->broken = {1, 2};
  auto done = AllReduce(0, kLong);
  engine_->End(0, absl::UnavailableError("Connection closed by peer"));
  EXPECT_THAT(std::string(done.get().message()),
              HasSubstr("rank 1 (10.10.1.1:29500), rank 2 (10.10.1.1:29500)"));
  EXPECT_FALSE(exchange_->suspect().has_value());
}

// The real engine, connected, with one bucket.
class GlooEngineTest : public ::testing::Test {
 protected:
  GlooEngineTest() : cluster_("gloo", 3, {{400, v1::DTYPE_FLOAT32}}) {
    std::vector<std::vector<std::string>> data(3, {std::string(400, '\0')});
    for (const absl::Status& status : cluster_.RunStep(0, &data)) EXPECT_TRUE(status.ok());
  }

  std::future<absl::Status> AllReduce(int rank) {
    auto promise = std::make_shared<std::promise<absl::Status>>();
    const BucketKey key{LayoutId(0), Step(1), Bucket(0)};
    Exchange& exchange = cluster_.exchange(rank);
    exchange.Expect(key, BytesOf(&means_[rank]), SteadyNow() + kLong,
                    [promise](absl::Status status) { promise->set_value(std::move(status)); });
    exchange.Contribute(key, Rank(rank), BytesOf(&terms_));
    return promise->get_future();
  }

  std::vector<float> terms_ = std::vector<float>(100);
  std::vector<float> means_[2] = {terms_, terms_};
  BackendCluster cluster_;
};

// Gloo's ring receives from the next rank: rank 1 notices, and rank 0 by rank 1's end.
TEST_F(GlooEngineTest, AllReduce_PeerGoesAway_UnavailableNamesItAndIsSuspected) {
  auto first = AllReduce(0);
  auto second = AllReduce(1);
  cluster_.exchange(2).Cancel(kOver);
  const absl::Status status = second.get();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()),
              MatchesRegex("step 1, bucket 0: gloo lost its connection to rank 2 \\(.*\\): .*"));
  ASSERT_TRUE(cluster_.exchange(1).suspect().has_value());
  EXPECT_EQ(cluster_.exchange(1).suspect()->worker, cluster_.ViewOf(1).members[2].incarnation);
  EXPECT_EQ(first.get().code(), absl::StatusCode::kUnavailable);
}

TEST_F(GlooEngineTest, AllReduce_PeerIsGoneAlready_UnavailableNamesIt) {
  cluster_.exchange(2).Cancel(kOver);
  const absl::Status status = AllReduce(1).get();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 2"));
}

TEST_F(EngineExchangeTest, Start_AWorkerCarriesSeveralRanks_InvalidArgument) {
  view_.members = {{MakeIncarnation(), "10.10.1.1:29500", {Rank(0), Rank(1)}},
                   {MakeIncarnation(), "10.10.1.2:29500", {Rank(2)}}};
  for (const Member& member : view_.members) {
    view_.self = member.incarnation;
    EngineExchange exchange("gloo", view_, options_, std::make_unique<FakeEngine>());
    EXPECT_EQ(exchange.Start(),
              absl::InvalidArgumentError("back end gloo: got ranks 0, 1 on one worker "
                                         "(10.10.1.1:29500), expected a worker for each rank"));
  }
}

TEST(GlooBackendTest, Connect_AddressOfAnotherHost_FailedPrecondition) {
  auto backend = MakeBackend("gloo", {"127.0.0.1:1"}).value();
  View view;
  view.world_size = 1;
  view.self = MakeIncarnation();
  view.members = {{view.self, "203.0.113.5:29500", {Rank(0)}}};
  absl::optional<Incarnation> suspect;
  const absl::Status status = backend
                                  ->Connect(
                                      view, [] { return absl::OkStatus(); }, &suspect)
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("back end gloo needs the advertised address 203.0.113.5:29500: cannot "
                        "listen on 203.0.113.5: "));
}

TEST(GlooBackendTest, Make_BrokenPipesDoNotEndTheProcess) {
  auto backend = MakeBackend("gloo", {"127.0.0.1:1"}).value();
  struct sigaction action;
  ASSERT_EQ(sigaction(SIGPIPE, nullptr, &action), 0);
  EXPECT_EQ(action.sa_handler, SIG_IGN);
}

TEST(GlooBackendTest, Make_HalfTypesOnTheWire_InvalidArgument) {
  BackendOptions options;
  options.wire = v1::DTYPE_BFLOAT16;
  EXPECT_EQ(
      MakeBackend("gloo", options).status(),
      absl::InvalidArgumentError("back end gloo cannot sum bf16 in float32; expected --wire fp32"));
}

}  // namespace
}  // namespace gradwire
