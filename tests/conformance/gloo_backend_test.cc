// What back end gloo does around its engine: order, deadlines, ends. The engine
// itself runs in backend_test.cc; here it is mostly one that does as it is told.

#include "worker/backends/gloo/gloo_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <future>
#include <utility>

#include "absl/time/clock.h"
#include "common/rpc/grpc_server.h"
#include "coordinator/rendezvous/rendezvous_service.h"
#include "tests/cluster/backend_cluster.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Optional;

const absl::Status kOver = absl::AbortedError("rank 1 was lost in step 7");

// Ends operations when the test says so, or at Abort.
class FakeEngine : public GlooEngine {
 public:
  // `peer_key`: Connect waits for it, if it is not empty.
  explicit FakeEngine(std::string peer_key = "") : peer_key_(std::move(peer_key)) {}

  absl::Status Bind(const std::string& host) override {
    bound_to = host;
    return absl::OkStatus();
  }
  absl::Status Connect(int, int, KeyValueStore* store) override {
    if (peer_key_.empty()) return absl::OkStatus();
    return store->Wait({peer_key_}, absl::Now() + absl::Seconds(60)).status();
  }
  void Sum(absl::Span<float> values, Done done) override { Add(values.size() * 4, done); }
  void Broadcast(absl::Span<uint8_t> bytes, Done done) override { Add(bytes.size(), done); }
  std::vector<int> BrokenPeers() override { return broken; }
  void Abort() override {
    MutexLock lock(&mutex_);
    aborted_ = true;
    changed_.NotifyAll();
  }

  // Waits for operation number `index`; then it ends with `status`.
  void End(size_t index, const absl::Status& status) {
    Done done;
    {
      MutexLock lock(&mutex_);
      while (operations_.size() <= index) changed_.Wait(&mutex_);
      std::swap(done, operations_[index].second);
    }
    done(status);
  }
  // Waits for Abort; then ends operation `index`, if it is under way, as a
  // closed connection does.
  void EndAfterAbort(size_t index) {
    {
      MutexLock lock(&mutex_);
      while (!aborted_) changed_.Wait(&mutex_);
      if (operations_.size() <= index) return;
    }
    End(index, absl::UnavailableError("aborted"));
  }
  std::vector<size_t> sizes() {
    MutexLock lock(&mutex_);
    std::vector<size_t> sizes;
    for (const auto& operation : operations_) sizes.push_back(operation.first);
    return sizes;
  }

  std::string bound_to;
  std::vector<int> broken;

 private:
  void Add(size_t bytes, Done done) {
    {
      MutexLock lock(&mutex_);
      if (!aborted_) operations_.emplace_back(bytes, std::exchange(done, nullptr));
      changed_.NotifyAll();
    }
    if (done != nullptr) done(absl::UnavailableError("aborted"));
  }

  const std::string peer_key_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::pair<size_t, Done>> operations_ ABSL_GUARDED_BY(mutex_);  // bytes, done
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
};

// Rank 0 of three, with an engine that does as it is told.
class GlooBackendTest : public ::testing::Test {
 protected:
  GlooBackendTest() {
    server_ = StartGrpcServer("127.0.0.1:0", {&service_}).value();
    view_ = {run_id_, CoordinatorEpoch(1), Generation(1), 3, Rank(0), {}, 64};
    for (int rank = 0; rank < 3; ++rank) {
      view_.members.push_back({MakeIncarnation(), "10.10.1.1:29500", {Rank(rank)}});
    }
  }
  ~GlooBackendTest() override {
    backend_.reset();
    store_.Abort(absl::CancelledError("the test is over"));
    server_.server->Shutdown();
  }

  // The engine's Connect waits for `peer_key`, if it is not empty.
  void Start(const std::string& peer_key = "") {
    auto engine = std::make_unique<FakeEngine>(peer_key);
    engine_ = engine.get();
    backend_ = std::make_unique<GlooBackend>(server_.address, std::move(engine));
    ASSERT_TRUE(backend_->OnView(view_, {}).ok());
  }

  std::future<absl::Status> AllReduce(int bucket, absl::Duration timeout, size_t elements = 3) {
    auto promise = std::make_shared<std::promise<absl::Status>>();
    means_[bucket].resize(elements);
    backend_->AllReduceAsync({Step(0), Bucket(bucket)}, absl::MakeSpan(terms_).subspan(0, elements),
                             absl::MakeSpan(means_[bucket]), absl::Now() + timeout,
                             [promise](absl::Status status) { promise->set_value(status); });
    return promise->get_future();
  }

  const RunId run_id_ = MakeRunId();
  RendezvousStore store_;
  RendezvousService service_{run_id_, &store_};
  GrpcServer server_;
  View view_;
  FakeEngine* engine_ = nullptr;
  std::unique_ptr<GlooBackend> backend_;
  std::vector<float> terms_ = {3, 6, 9, 12};
  std::vector<float> means_[2];
};

constexpr absl::Duration kLong = absl::Seconds(60);

TEST_F(GlooBackendTest, OnView_BindsToTheAdvertisedHost) {
  Start();
  EXPECT_EQ(engine_->bound_to, "10.10.1.1");
}

TEST_F(GlooBackendTest, AllReduce_EngineHasSummed_ResultIsTheSumOverTheWorldSize) {
  Start();
  auto done = AllReduce(0, kLong);
  engine_->End(0, absl::OkStatus());
  EXPECT_TRUE(done.get().ok());
  EXPECT_THAT(means_[0], ElementsAre(1, 2, 3));
  EXPECT_THAT(terms_, ElementsAre(3, 6, 9, 12));
}

TEST_F(GlooBackendTest, AllReduce_TwoBuckets_BothAreUnderWayInTheOrderHandedIn) {
  Start();
  auto first = AllReduce(0, kLong, 3);
  auto second = AllReduce(1, kLong, 4);
  engine_->End(1, absl::OkStatus());
  EXPECT_TRUE(second.get().ok());
  EXPECT_THAT(engine_->sizes(), ElementsAre(12, 16));
  engine_->End(0, absl::OkStatus());
  EXPECT_TRUE(first.get().ok());
}

TEST_F(GlooBackendTest, AllReduce_DeadlinePasses_NamesTheRanksThatAreBehind) {
  ASSERT_TRUE(store_.Set("gloo/1/handed-in/1", "1").ok());
  Start();
  auto done = AllReduce(0, absl::Milliseconds(50));
  engine_->EndAfterAbort(0);
  EXPECT_EQ(done.get(), absl::DeadlineExceededError("step 0, bucket 0: not averaged by the "
                                                    "deadline; missing: rank 2 (10.10.1.1:29500)"));
}

TEST_F(GlooBackendTest, AllReduce_DeadlinePassesWithNobodyBehind_SaysSo) {
  ASSERT_TRUE(store_.Set("gloo/1/handed-in/1", "2").ok());
  ASSERT_TRUE(store_.Set("gloo/1/handed-in/2", "1").ok());
  Start();
  auto done = AllReduce(0, absl::Milliseconds(50));
  engine_->EndAfterAbort(0);
  EXPECT_EQ(done.get(),
            absl::DeadlineExceededError("step 0, bucket 0: not averaged by the deadline; all ranks "
                                        "have handed it in, but gloo has not finished"));
}

TEST_F(GlooBackendTest, AllReduce_DeadlinePassesWhileConnecting_DeadlineExceeded) {
  Start("peer");
  const absl::Status status = AllReduce(0, absl::Milliseconds(50)).get();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("missing: rank 1 (10.10.1.1:29500), rank"));
}

TEST_F(GlooBackendTest, AllReduce_CoordinatorDoesNotAnswerAtTheDeadline_SaysSo) {
  Start();
  auto done = AllReduce(0, absl::Milliseconds(300));
  server_.server->Shutdown();
  engine_->EndAfterAbort(0);
  const absl::Status status = done.get();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rendezvous at coordinator 127.0.0.1:"));
}

TEST_F(GlooBackendTest, AllReduce_ConnectionBreaks_UnavailableAndSuspectNameThePeer) {
  Start();
  engine_->broken = {2};
  auto done = AllReduce(0, kLong);
  engine_->End(0, absl::UnavailableError("Connection closed by peer"));
  EXPECT_EQ(done.get(), absl::UnavailableError("step 0, bucket 0: gloo lost its connection to rank "
                                               "2 (10.10.1.1:29500): Connection closed by peer"));
  EXPECT_THAT(backend_->suspect(), Optional(Rank(2)));
}

TEST_F(GlooBackendTest, AllReduce_SeveralConnectionsBreak_NamesAllAndSuspectsNone) {
  Start();
  engine_->broken = {1, 2};
  auto done = AllReduce(0, kLong);
  engine_->End(0, absl::UnavailableError("Connection closed by peer"));
  EXPECT_THAT(std::string(done.get().message()),
              HasSubstr("rank 1 (10.10.1.1:29500), rank 2 (10.10.1.1:29500)"));
  EXPECT_EQ(backend_->suspect(), absl::nullopt);
}

TEST_F(GlooBackendTest, AllReduce_PeerClosedBecauseItLostAnother_OnlyTheOtherIsSuspected) {
  ASSERT_TRUE(store_.Set("gloo/1/lost-a-peer/1", "").ok());
  Start();
  engine_->broken = {1, 2};
  auto done = AllReduce(0, kLong);
  engine_->End(0, absl::UnavailableError("Connection closed by peer"));
  EXPECT_THAT(std::string(done.get().message()),
              HasSubstr("lost its connection to rank 2 (10.10.1.1:29500): "));
  EXPECT_THAT(backend_->suspect(), Optional(Rank(2)));
  EXPECT_TRUE(store_.Wait({"gloo/1/lost-a-peer/0"}, absl::InfinitePast()).ok());
}

TEST_F(GlooBackendTest, AllReduce_AfterABreak_EndsWithTheSameStatus) {
  Start();
  auto first = AllReduce(0, kLong);
  engine_->End(0, absl::UnavailableError("Connection closed by peer"));
  const absl::Status status = first.get();
  EXPECT_EQ(AllReduce(1, kLong).get(), status);
  EXPECT_EQ(backend_->Finish(absl::Now() + kLong), status);
}

TEST_F(GlooBackendTest, Cancel_OperationUnderWay_DoneRunsWhenTheEngineIsThrough) {
  Start();
  auto done = AllReduce(0, kLong);
  backend_->Cancel(kOver);
  EXPECT_EQ(done.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  engine_->EndAfterAbort(0);
  EXPECT_EQ(done.get(), kOver);
}

TEST_F(GlooBackendTest, Cancel_WhileConnecting_EndsWithReason) {
  Start("peer");
  auto done = AllReduce(0, kLong);
  backend_->Cancel(kOver);
  EXPECT_EQ(done.get(), kOver);
}

TEST_F(GlooBackendTest, Totals_AfterAnAllReduce_AreThoseOfARing) {
  Start();
  auto done = AllReduce(0, kLong);
  engine_->End(0, absl::OkStatus());
  ASSERT_TRUE(done.get().ok());
  EXPECT_EQ(backend_->totals().bytes_sent, 2 * 12 * 2 / 3);
  EXPECT_EQ(backend_->totals().bytes_received, 2 * 12 * 2 / 3);
}

TEST(GlooBackendTotals, Broadcast_FiveRanks_EachRankButTheFirstReceivesOnce) {
  BackendCluster cluster("gloo", 5, {{100, v1::DTYPE_BYTES}});
  std::vector<std::vector<std::string>> data(5, {std::string(100, 'x')});
  for (const absl::Status& status : cluster.RunStep(0, &data)) ASSERT_TRUE(status.ok()) << status;
  uint64_t sent = 0;
  for (int rank = 0; rank < 5; ++rank) {
    sent += cluster.backend(rank).totals().bytes_sent;
    EXPECT_EQ(cluster.backend(rank).totals().bytes_received, rank == 0 ? 0 : 100) << rank;
  }
  EXPECT_EQ(sent, 400);
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
    cluster_.backend(rank).AllReduceAsync(
        {Step(1), Bucket(0)}, terms_, absl::MakeSpan(means_[rank]), absl::Now() + kLong,
        [promise](absl::Status status) { promise->set_value(status); });
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
  cluster_.backend(2).Cancel(kOver);
  const absl::Status status = second.get();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()),
              MatchesRegex("step 1, bucket 0: gloo lost its connection to rank 2 \\(.*\\): .*"));
  EXPECT_THAT(cluster_.backend(1).suspect(), Optional(Rank(2)));
  EXPECT_EQ(first.get().code(), absl::StatusCode::kUnavailable);
}

TEST_F(GlooEngineTest, AllReduce_PeerIsGoneAlready_UnavailableNamesIt) {
  cluster_.backend(2).Cancel(kOver);
  const absl::Status status = AllReduce(1).get();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 2"));
}

TEST(GlooBackendStart, OnView_AddressOfAnotherHost_FailedPrecondition) {
  auto backend = MakeGlooBackend({"127.0.0.1:1"}).value();
  View view;
  view.world_size = 1;
  view.members = {{MakeIncarnation(), "203.0.113.5:29500", {Rank(0)}}};
  const absl::Status status = backend->OnView(view, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("back end gloo needs the advertised address 203.0.113.5:29500: cannot "
                        "listen on 203.0.113.5: "));
}

TEST(GlooBackendStart, Make_BrokenPipesDoNotEndTheProcess) {
  auto backend = MakeGlooBackend({"127.0.0.1:1"}).value();
  struct sigaction action;
  ASSERT_EQ(sigaction(SIGPIPE, nullptr, &action), 0);
  EXPECT_EQ(action.sa_handler, SIG_IGN);
}

TEST(GlooBackendStart, Make_HalfTypesOnTheWire_InvalidArgument) {
  BackendOptions options;
  options.wire = v1::DTYPE_BFLOAT16;
  EXPECT_EQ(
      MakeGlooBackend(options).status(),
      absl::InvalidArgumentError("back end gloo cannot sum bf16 in float32; expected --wire fp32"));
}

}  // namespace
}  // namespace gradwire
