// Processes that die, are told to stop, or talk nonsense.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "tests/support/launch.h"
#include "tests/support/param_name.h"
#include "tests/support/sockets.h"

namespace gradwire::testing::failure_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

constexpr absl::Duration kSoon = absl::Seconds(60);
// The promise is 2 s; the rest is for a machine that is busy with other things.
constexpr absl::Duration kStopWithin = absl::Seconds(4);
constexpr int kForever = 100000;  // iterations

// A coordinator and workers in the middle of training.
class FailureTest : public ::testing::TestWithParam<const char*> {
 protected:
  void Begin(int world_size, const std::string& sync, const Options& of_coordinator = {},
             const Options& of_workers = {}) {
    coordinator_ = std::make_unique<RunningCoordinator>(
        world_size, Options{"--on-loss", "stop"} + of_coordinator);
    for (int rank = 0; rank < world_size; ++rank) {
      workers_.push_back(StartWorker(coordinator_->address(), rank,
                                     TinyRun(kForever) + Options{"--sync", sync} + of_workers));
    }
    const absl::Status begun = coordinator_->WaitForStep(2);
    ASSERT_TRUE(begun.ok()) << begun;
  }

  std::unique_ptr<RunningCoordinator> coordinator_;
  std::vector<std::unique_ptr<Process>> workers_;
};

TEST_P(FailureTest, WorkerKilled_MidStep_AllOthersStopAndSayWhoWhenWhy) {
  Begin(3, GetParam());
  workers_[1]->Signal(SIGKILL);
  const absl::Time killed = SteadyNow();
  for (int rank : {0, 2}) {
    const auto code = workers_[rank]->Wait(kStopWithin - (SteadyNow() - killed));
    ASSERT_TRUE(code.ok()) << code.status();
    EXPECT_EQ(*code, 1);
    EXPECT_THAT(workers_[rank]->err(),
                ::testing::ContainsRegex("rank 1 .*was lost in step [0-9]+: "));
  }
  const auto code = coordinator_->process().Wait(kStopWithin - (SteadyNow() - killed));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 1);
  EXPECT_THAT(coordinator_->process().err(),
              ::testing::ContainsRegex("rank 1 .*was lost in step [0-9]+: "));
}

TEST_P(FailureTest, CoordinatorKilled_MidStep_WorkersStopAndSaySo) {
  Begin(2, GetParam());
  coordinator_->process().Signal(SIGKILL);
  for (const auto& worker : workers_) {
    const auto code = worker->Wait(kStopWithin);
    ASSERT_TRUE(code.ok()) << code.status();
    EXPECT_EQ(*code, 75);  // it may come back
    EXPECT_THAT(worker->err(), HasSubstr("coordinator"));
  }
}

TEST_P(FailureTest, WorkerTerminated_MidStep_EndsWithSignalsCodeAndTheRunEnds) {
  Begin(2, GetParam());
  workers_[0]->Signal(SIGTERM);
  EXPECT_EQ(*workers_[0]->Wait(kStopWithin), 128 + SIGTERM);
  EXPECT_EQ(*workers_[1]->Wait(kStopWithin), 1);
  EXPECT_THAT(workers_[1]->err(), ::testing::ContainsRegex("rank 0 .*was lost in step [0-9]+: "));
}

TEST_P(FailureTest, CoordinatorTerminated_MidStep_EndsWithSignalsCodeAndTheRunEnds) {
  Begin(2, GetParam());
  coordinator_->process().Signal(SIGTERM);
  EXPECT_EQ(*coordinator_->process().Wait(kStopWithin), 128 + SIGTERM);
  for (const auto& worker : workers_) EXPECT_EQ(*worker->Wait(kStopWithin), 1);
}

std::string SyncName(const ::testing::TestParamInfo<const char*>& info) {
  return ParamName(info.param);
}
INSTANTIATE_TEST_SUITE_P(Failure, FailureTest, ::testing::Values("ddp"), SyncName);
INSTANTIATE_TEST_SUITE_P(Long, FailureTest, ::testing::Values("gather-scatter", "all-reduce"),
                         SyncName);

using HangTest = FailureTest;

// The coordinator is patient, so that the worker's own timeout is what ends the run.
TEST_P(HangTest, PeerHangs_MidStep_StepTimeoutEndsTheRunAndNamesIt) {
  Begin(2, GetParam(), {"--lease-seconds", "600"}, {"--step-timeout-seconds", "4"});
  workers_[1]->Signal(SIGSTOP);
  const auto code = workers_[0]->Wait(kSoon);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 1);
  EXPECT_THAT(workers_[0]->err(), ::testing::ContainsRegex("step [0-9]+.*rank 1"));
  EXPECT_EQ(*coordinator_->process().Wait(kStopWithin), 1);
  EXPECT_THAT(coordinator_->process().err(),
              ::testing::ContainsRegex("rank 1 .*was lost in step [0-9]+: rank 0 waited in vain"));
}

INSTANTIATE_TEST_SUITE_P(Failure, HangTest, ::testing::Values("gather-scatter"), SyncName);
INSTANTIATE_TEST_SUITE_P(Long, HangTest, ::testing::Values("all-reduce"), SyncName);

class LaunchSignalTest : public ::testing::TestWithParam<int> {};

TEST_P(LaunchSignalTest, Launch_Training_EndsInTimeAndLeavesNoProcess) {
  const auto launch = StartLaunch(2, TinyRun(kForever) + Options{"--sync", "gather-scatter"});
  const absl::Status begun = launch->WaitForOutput("[rank 1]", kSoon);
  ASSERT_TRUE(begun.ok()) << begun;
  launch->Signal(GetParam());
  const auto code = launch->Wait(kStopWithin);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 128 + GetParam());
  EXPECT_THAT(launch->Children(), IsEmpty());
}

TEST_P(LaunchSignalTest, Coordinator_WaitingForWorkers_EndsInTime) {
  RunningCoordinator coordinator(2);
  coordinator.process().Signal(GetParam());
  const auto code = coordinator.process().Wait(kStopWithin);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 128 + GetParam());
}

TEST_P(LaunchSignalTest, Worker_WaitingForOthers_EndsInTime) {
  RunningCoordinator coordinator(2);
  const auto worker = StartWorker(coordinator.address(), 0, TinyRun(1));
  ASSERT_TRUE(coordinator.process().WaitForOutput("1 of 2 workers", kSoon).ok());
  worker->Signal(GetParam());
  const auto code = worker->Wait(kStopWithin);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 128 + GetParam());
}

INSTANTIATE_TEST_SUITE_P(Signal, LaunchSignalTest, ::testing::Values(SIGINT, SIGTERM),
                         [](const auto& info) { return ParamName(strsignal(info.param)); });

TEST(Launch, OneWorkerKilled_EndsTheOthersAndFails) {
  const auto launch = StartLaunch(2, TinyRun(kForever) + Options{"--sync", "gather-scatter"},
                                  {"--on-loss", "stop"});
  ASSERT_TRUE(launch->WaitForOutput("[rank 1]", kSoon).ok());
  const std::vector<pid_t> children = launch->Children();
  ASSERT_GE(children.size(), 3u);  // the coordinator, started first, and two workers
  kill(children.back(), SIGKILL);
  const auto code = launch->Wait(kSoon);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 128 + SIGKILL);
  EXPECT_THAT(launch->Children(), IsEmpty());
}

// Rank 0 hosts the coordinator in its own process.
class HostTest : public ::testing::Test {
 protected:
  void StartHost(int world_size, const Options& options, const Environment& environment = {}) {
    host_ = Process::Start(
        "gradwire-worker",
        Options{"--host-coordinator", "--coordinator", address_, "--rank", "0", "--world-size",
                absl::StrCat(world_size), "--coordinator-metrics", "off"} +
            TinyRun(kSteps) + options,
        environment);
  }
  void StartOther() { other_ = StartWorker(address_, 1, TinyRun(kSteps) + kModel); }

  static constexpr int kSteps = 400;
  const Options kModel = {"--model", "lenet", "--sync", "ddp"};
  const std::string address_ = UnusedAddress();
  std::unique_ptr<Process> host_, other_;
};

// If others carry on its ranks, they still need the coordinator.
TEST_F(HostTest, HostStops_OthersCarryItsRankOn_CoordinatorStaysForThem) {
  StartHost(2, kModel, {{"GRADWIRE_ON_LOSS", "recover"}});
  StartOther();
  ASSERT_TRUE(host_->WaitForOutput("iteration 0/", kSoon).ok());
  host_->Signal(SIGTERM);
  const auto code = other_->Wait(kSoon);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0) << other_->err();
  EXPECT_EQ(*host_->Wait(kSoon), 128 + SIGTERM);
  EXPECT_THAT(host_->err(), HasSubstr("ranks 0, 1 "));
}

// The run cannot begin without it, so the coordinator waits for no other worker.
TEST_F(HostTest, HostStops_BeforeTheRunBegins_AllEndAtOnceAndSayWhy) {
  StartHost(3, kModel);
  StartOther();
  ASSERT_TRUE(host_->WaitForOutput("2 of 3 workers", kSoon).ok());
  host_->Signal(SIGTERM);
  const auto code = host_->Wait(kSoon);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 128 + SIGTERM);
  EXPECT_NE(*other_->Wait(kSoon), 0);
  EXPECT_THAT(other_->err(), HasSubstr("rank 0, which hosts the coordinator, ended before"));
}

TEST_F(HostTest, HostHasNoData_EndsAtOnce) {
  StartHost(2, {"--dataset", "mnist", "--data-dir", "/nonexistent"});
  const auto code = host_->Wait(kSoon);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 2);
  EXPECT_THAT(host_->err(), HasSubstr("/nonexistent"));
}

TEST(Garbage, OnTheGrpcPort_DoesNotDisturbTheRun) {
  const RunningCoordinator coordinator(1);
  (void)Exchange(coordinator.address(), std::string(4096, '\xff'), /*half_close=*/true);
  (void)Exchange(coordinator.address(), "GET / HTTP/1.1\r\n\r\n", /*half_close=*/true);
  const auto worker =
      StartWorker(coordinator.address(), 0, TinyRun(2) + Options{"--sync", "gather-scatter"});
  EXPECT_EQ(*worker->Wait(kSoon), 0) << worker->err();
}

TEST(Metrics, Coordinator_BeforeAndInTheRun_IsReadyOnlyInIt) {
  const RunningCoordinator coordinator(1);
  EXPECT_EQ(HttpGet(coordinator.metrics_address(), "/healthz")->code, 200);
  EXPECT_EQ(HttpGet(coordinator.metrics_address(), "/readyz")->code, 503);
  const auto worker = StartWorker(coordinator.address(), 0,
                                  TinyRun(kForever) + Options{"--sync", "gather-scatter"});
  ASSERT_TRUE(coordinator.WaitForStep(1).ok()) << worker->err();
  EXPECT_EQ(HttpGet(coordinator.metrics_address(), "/readyz")->code, 200);
  const std::string text = HttpGet(coordinator.metrics_address(), "/metrics")->body;
  EXPECT_THAT(text, HasSubstr("gradwire_workers 1\n"));
  EXPECT_THAT(text, HasSubstr("gradwire_bytes_total{direction=\"received\"}"));
}

}  // namespace
}  // namespace gradwire::testing::failure_test
