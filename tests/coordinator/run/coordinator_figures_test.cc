// What the ranks tell of their steps, as the coordinator's HTTP pages pass it on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/session/session.h"
#include "coordinator/run/coordinator.h"
#include "tests/coordinator/membership/test_hello.h"
#include "tests/support/sockets.h"

namespace gradwire {
namespace {

using ::gradwire::testing::HttpGet;
using ::gradwire::testing::TestHello;
using ::testing::HasSubstr;
using ::testing::Not;

CoordinatorOptions TwoRanks() {
  CoordinatorOptions options;
  options.listen = "127.0.0.1:0";
  options.metrics = "127.0.0.1:0";
  options.world_size = 2;
  options.on_loss = "stop";  // no step is sealed
  return options;
}

// Two workers that tell of one step each, and leave.
class CoordinatorFiguresTest : public ::testing::Test {
 protected:
  CoordinatorFiguresTest() : coordinator_(Coordinator::Start(TwoRanks()).value()) {
    std::future<bool> joined[2];
    for (int rank : {0, 1}) {
      SessionOptions options;
      options.coordinator = coordinator_->address();
      sessions_[rank] = Session::Open(options, [](const absl::Status&) {}).value();
      joined[rank] = std::async(std::launch::async, [this, rank] {
        return sessions_[rank]->Join(TestHello(rank + 1, {rank})).ok();
      });
    }
    for (std::future<bool>& worker : joined) EXPECT_TRUE(worker.get());
  }

  // Rank 0 waits a quarter of its second for others; rank 1 computes all of its own.
  void TellAStep() {
    v1::StepDone done;
    done.set_total_steps(total_steps_);
    done.set_iteration_seconds(1);
    if (losses_[0]) done.set_loss(*losses_[0]);
    done.set_bytes_sent(100);
    done.set_samples(8);
    (*done.mutable_phase_seconds())["exposed_communication"] = 0.25;
    sessions_[0]->ReportStep(done);
    done.set_rank(1);
    done.clear_loss();
    if (losses_[1]) done.set_loss(*losses_[1]);
    (*done.mutable_phase_seconds())["exposed_communication"] = 0;
    sessions_[1]->ReportStep(done);
    // What was told before is taken before the end is.
    std::future<bool> left[2];
    for (int rank : {0, 1}) {
      left[rank] = std::async(std::launch::async,
                              [this, rank] { return sessions_[rank]->Leave(true, "").ok(); });
    }
    for (std::future<bool>& worker : left) EXPECT_TRUE(worker.get());
    EXPECT_EQ(coordinator_->Wait(), absl::OkStatus());
  }
  std::string Get(const std::string& path) {
    return HttpGet(coordinator_->metrics_address(), path).value().body;
  }

  uint64_t total_steps_ = 9;
  std::optional<double> losses_[2] = {1, 4};
  const std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Session> sessions_[2];
};

TEST_F(CoordinatorFiguresTest, Metrics_LossesOfTwoRanks_TheirMean) {
  TellAStep();
  EXPECT_THAT(Get("/metrics"), HasSubstr("\ngradwire_loss 2.5\n"));
}

TEST_F(CoordinatorFiguresTest, Metrics_LossOfOneRank_IsThatRanks) {
  losses_[0].reset();
  TellAStep();
  EXPECT_THAT(Get("/metrics"), HasSubstr("\ngradwire_loss 4\n"));
}

// As of a program on the library that does not call report_loss.
TEST_F(CoordinatorFiguresTest, Metrics_NoRankTellsItsLoss_HaveNone) {
  losses_[0].reset();
  losses_[1].reset();
  TellAStep();
  EXPECT_THAT(Get("/metrics"), Not(HasSubstr("\ngradwire_loss ")));
}

TEST_F(CoordinatorFiguresTest, Metrics_TotalSteps_AreWhatTheRanksSay) {
  TellAStep();
  EXPECT_THAT(Get("/metrics"), HasSubstr("\ngradwire_total_steps 9\n"));
}

TEST_F(CoordinatorFiguresTest, Metrics_TotalStepsAreNotTold_AreThoseDoneAtTheEnd) {
  total_steps_ = 0;
  EXPECT_THAT(Get("/metrics"), HasSubstr("\ngradwire_total_steps 0\n"));
  TellAStep();
  EXPECT_THAT(Get("/metrics"), HasSubstr("\ngradwire_total_steps 1\n"));
}

TEST_F(CoordinatorFiguresTest, Metrics_NothingWasSummedHere_WaitIsTheLongerOwnWork) {
  TellAStep();
  const std::string metrics = Get("/metrics");
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_rank_lag_seconds_sum{rank=\"0\"} 0\n"));
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_rank_lag_seconds_sum{rank=\"1\"} 0.25\n"));
}

TEST_F(CoordinatorFiguresTest, Metrics_RunIsOver_NoWorkersAreThereAndTheViewStays) {
  EXPECT_THAT(Get("/metrics"), HasSubstr("\ngradwire_workers 2\n"));
  TellAStep();
  const std::string metrics = Get("/metrics");
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_workers 0\n"));
  EXPECT_THAT(metrics, HasSubstr("\ngradwire_generation 1\n"));
}

TEST_F(CoordinatorFiguresTest, History_OneStep_SameLossAndSumsOfTheRanks) {
  TellAStep();
  const auto points = nlohmann::json::parse(Get("/history.json"))["points"];
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0]["loss"], 2.5);
  EXPECT_EQ(points[0]["bytes_sent"], 200);
  EXPECT_EQ(points[0]["samples_per_second"], 16);
  EXPECT_EQ(points[0]["phase_seconds"]["exposed_communication"], 0.125);
}

TEST_F(CoordinatorFiguresTest, Status_EndOfTheRun_StepIsTheOneThatAllHaveDone) {
  TellAStep();
  const auto status = nlohmann::json::parse(Get("/status.json"));
  EXPECT_EQ(status["step"], 1);
  EXPECT_EQ(status["slowest_rank"], 1);
  EXPECT_EQ(status["events"].back()["kind"], "finished");
}

TEST_F(CoordinatorFiguresTest, Status_WorkerIsLostForGood_LastEventSaysThatTheRunEndedAndWhy) {
  sessions_[1].reset();
  const absl::Status end = coordinator_->Wait();
  const auto status = nlohmann::json::parse(Get("/status.json"));
  EXPECT_EQ(status["state"], "aborted");
  const nlohmann::json& event = status["events"].back();
  EXPECT_EQ(event["kind"], "aborted");
  EXPECT_EQ(event["text"], "rank 1 (10.10.1.2:2) was lost in step 0: its session stream broke");
  EXPECT_EQ(end.message(), event["text"].get<std::string>());
}

}  // namespace
}  // namespace gradwire
