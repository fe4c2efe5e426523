// Losses that a run survives, as the coordinator's HTTP pages and metrics show them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/rpc/channel.h"
#include "common/session/session.h"
#include "coordinator/run/coordinator.h"
#include "gradwire/v1/rendezvous.grpc.pb.h"
#include "tests/coordinator/membership/test_hello.h"
#include "tests/support/sockets.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::gradwire::testing::HttpGet;
using ::gradwire::testing::TestHello;
using ::testing::HasSubstr;

CoordinatorOptions ThreeRanks() {
  CoordinatorOptions options;
  options.listen = "127.0.0.1:0";
  options.metrics = "127.0.0.1:0";
  options.world_size = 3;
  return options;
}

// Three workers with a rank each, unless the last one has others. The first hears of each further
// view.
class CoordinatorLossesTest : public ::testing::Test {
 protected:
  explicit CoordinatorLossesTest(const CoordinatorOptions& options = ThreeRanks(),
                                 const std::vector<int>& of_last = {2})
      : coordinator_(Coordinator::Start(options).value()) {
    std::future<bool> joined[3];
    for (int rank : {0, 1, 2}) {
      SessionOptions session;
      session.coordinator = coordinator_->address();
      Session::Listener listener;
      if (rank == 0) {
        listener.on_new_view = [this](const View& view) {
          heard_[view.generation.value() - 2].set_value();
        };
      }
      sessions_[rank] = Session::Open(
                            session, [](const absl::Status&) {}, std::move(listener))
                            .value();
      const std::vector<int> ranks = rank == 2 ? of_last : std::vector<int>{rank};
      joined[rank] = std::async(std::launch::async, [this, rank, ranks] {
        return sessions_[rank]->Join(TestHello(rank + 1, ranks)).ok();
      });
    }
    for (std::future<bool>& worker : joined) EXPECT_TRUE(worker.get());
  }

  // Ends a worker, and waits for the view without it.
  void Lose(int rank, uint64_t generation) {
    std::future<void> heard = heard_[generation - 2].get_future();
    sessions_[rank].reset();
    ASSERT_EQ(heard.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  }
  std::string Get(const std::string& path) {
    return HttpGet(coordinator_->metrics_address(), path).value().body;
  }

  const std::unique_ptr<Coordinator> coordinator_;
  std::promise<void> heard_[2];  // of generations 2 and 3
  std::unique_ptr<Session> sessions_[3];
};

// A foreign engine whose peer will not come.
TEST(CoordinatorEnd, WorkerWaitsForAKey_IsToldThatTheRunIsOver) {
  CoordinatorOptions options = ThreeRanks();
  options.world_size = 1;
  const auto coordinator = Coordinator::Start(options).value();
  SessionOptions session_options;
  session_options.coordinator = coordinator->address();
  const auto session = Session::Open(
                           session_options, [](const absl::Status&) {}, Session::Listener())
                           .value();
  const absl::StatusOr<View> view = session->Join(TestHello(1, {0}));
  ASSERT_TRUE(view.ok()) << view.status();
  const auto stub = v1::Rendezvous::NewStub(MakeChannel(coordinator->address()));
  v1::WaitRequest request;
  request.set_run_id(ToBytes(view->run_id));
  request.add_keys("never");
  auto waits = std::async(std::launch::async, [&] {
    grpc::ClientContext context;
    context.set_deadline(ToGrpcDeadline(SteadyNow() + absl::Seconds(30)));
    v1::Entries reply;
    return stub->Wait(&context, request, &reply);
  });
  EXPECT_EQ(waits.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  EXPECT_EQ(session->Leave(true, ""), absl::OkStatus());
  const grpc::Status ended = waits.get();
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::ABORTED) << ended.error_message();
  EXPECT_THAT(ended.error_message(), HasSubstr("the run is over"));
}

TEST_F(CoordinatorLossesTest, TwoOneAfterTheOther_EachCountsWithItsOwnRanks) {
  Lose(2, 2);
  Lose(1, 3);
  const std::string metrics = Get("/metrics");
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_lost_workers_total 2\n"));
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_recoveries_total 2\n"));
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_recovered_ranks_total 2\n"));
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_workers 1\n"));
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_generation 3\n"));
  const auto failures = nlohmann::json::parse(Get("/status.json"))["failures"];
  EXPECT_EQ(failures["views"], 3);
  EXPECT_EQ(failures["losses"], 2);
  EXPECT_EQ(failures["recomputed_ranks"], 2);
  ASSERT_EQ(failures["last"].size(), 2u);
  for (const int loss : {0, 1}) {
    const int rank = 2 - loss;
    SCOPED_TRACE(rank);
    const auto& last = failures["last"][loss];
    EXPECT_EQ(last["ranks"], nlohmann::json::array({rank}));
    EXPECT_EQ(last["address"], TestHello(rank + 1).address());
    EXPECT_EQ(last["generation"], 2 + loss);
    ASSERT_EQ(last["carriers"].size(), 1u);
    EXPECT_EQ(last["carriers"][0]["address"], TestHello(1).address());
    EXPECT_EQ(last["carriers"][0]["adopted"], nlohmann::json::array({rank}));
  }
}

TEST_F(CoordinatorLossesTest, RunThatGoesOn_NeedsMinWorkersAndShowsWhatHappened) {
  EXPECT_THAT(Get("/metrics"), HasSubstr("\ngradwire_min_workers 1\n"));
  Lose(2, 2);
  const auto status = nlohmann::json::parse(Get("/status.json"));
  EXPECT_EQ(status["state"], "running");
  ASSERT_EQ(status["events"].size(), 3u);
  EXPECT_EQ(status["events"][0]["kind"], "started");
  EXPECT_EQ(status["events"][0]["text"], "the run began with 3 workers");
  EXPECT_EQ(status["events"][1]["kind"], "lost");
  EXPECT_EQ(status["events"][1]["text"], "rank 2 was lost: its session stream broke");
  EXPECT_EQ(status["events"][2]["kind"], "recovered");
  EXPECT_EQ(status["events"][2]["text"],
            "rank 2 is carried on with rank 0 at 10.10.1.2:1; generation 2 begins with step 0");
}

TEST_F(CoordinatorLossesTest, Log_RunGoesOn_IsAWarning) {
  ::testing::internal::CaptureStdout();
  Lose(2, 2);
  const std::string log = ::testing::internal::GetCapturedStdout();
  const size_t at = log.find("rank 2 (10.10.1.2:3) was lost in step 0: ");
  ASSERT_NE(at, std::string::npos) << log;
  const size_t line = log.rfind('\n', at) + 1;
  EXPECT_THAT(log.substr(line, at - line), HasSubstr("warning"));
}

CoordinatorOptions FourRanks() {
  CoordinatorOptions options = ThreeRanks();
  options.world_size = 4;
  options.workers = 3;
  return options;
}

// The last worker has ranks 2 and 3.
class LossOfTwoRanksTest : public CoordinatorLossesTest {
 protected:
  LossOfTwoRanksTest() : CoordinatorLossesTest(FourRanks(), {2, 3}) {}
};

TEST_F(LossOfTwoRanksTest, EachOtherCarriesOne_OneLossAndTwoRanks) {
  Lose(2, 2);
  const std::string metrics = Get("/metrics");
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_lost_workers_total 1\n"));
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_recoveries_total 1\n"));
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_recovered_ranks_total 2\n"));
  const auto status = nlohmann::json::parse(Get("/status.json"));
  EXPECT_EQ(status["failures"]["recomputed_ranks"], 2);
  ASSERT_EQ(status["events"].size(), 3u);
  EXPECT_EQ(status["events"][1]["text"], "ranks 2, 3 were lost: its session stream broke");
  EXPECT_EQ(status["events"][2]["text"],
            "rank 2 is carried on with rank 0 at 10.10.1.2:1; rank 3 is carried on with rank 1 at "
            "10.10.1.2:2; generation 2 begins with step 0");
}

// Its steps are sealed all the same, for the ledger.
class LossEndsTheRunTest : public CoordinatorLossesTest {
 protected:
  LossEndsTheRunTest() : CoordinatorLossesTest(StopAfterALoss()) {}

 private:
  static CoordinatorOptions StopAfterALoss() {
    CoordinatorOptions options = ThreeRanks();
    options.on_loss = "stop";
    options.run_dir = RunDir().path();
    return options;
  }
  static const testing::TempDir& RunDir() {
    static const testing::TempDir dir;
    return dir;
  }
};

TEST_F(LossEndsTheRunTest, Metrics_RunWithALedger_NeedsAllItsWorkers) {
  EXPECT_THAT(Get("/metrics"), HasSubstr("\ngradwire_ledger_durable 1\n"));
  EXPECT_THAT(Get("/metrics"), HasSubstr("\ngradwire_min_workers 3\n"));
}

CoordinatorOptions ThreeRanksThatStop() {
  CoordinatorOptions options = ThreeRanks();
  options.on_loss = "stop";
  return options;
}

class RunEndsEarlyTest : public CoordinatorLossesTest {
 protected:
  RunEndsEarlyTest() : CoordinatorLossesTest(ThreeRanksThatStop()) {}
};

// As deploy/prometheus/alerts.yml promises, no alert misses its workers.
TEST_F(RunEndsEarlyTest, Metrics_RunIsOver_NeedsNoWorkers) {
  sessions_[2].reset();
  EXPECT_FALSE(coordinator_->Wait().ok());
  const std::string metrics = Get("/metrics");
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_workers 0\n"));
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_min_workers 0\n"));
}

TEST(CoordinatorNeeds, RunBeforeItBegins_AllItsWorkers) {
  CoordinatorOptions options = ThreeRanks();
  options.workers = 2;
  const auto coordinator = Coordinator::Start(options).value();
  EXPECT_THAT(HttpGet(coordinator->metrics_address(), "/metrics").value().body,
              HasSubstr("\ngradwire_min_workers 2\n"));
}

}  // namespace
}  // namespace gradwire
