// Back end sharded with aggregators in processes of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/launch.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing::aggregators_test {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(60);

std::unique_ptr<Process> StartAggregator(const std::string& coordinator) {
  return Process::Start("gradwire-coordinator",
                        {"--aggregate-only", "true", "--coordinator", coordinator, "--listen",
                         "127.0.0.1:0", "--metrics", "off"});
}

// A run of two workers and two aggregators.
class SeparateAggregators : public ::testing::Test {
 protected:
  void Start(int iterations) {
    coordinator_ = std::make_unique<RunningCoordinator>(2, Options{"--aggregators", "2"});
    for (int i = 0; i < 2; ++i) aggregators_.push_back(StartAggregator(coordinator_->address()));
    for (int rank = 0; rank < 2; ++rank) {
      workers_.push_back(StartWorker(
          coordinator_->address(), rank,
          TinyRun(iterations) +
              Options{"--sync", "all-reduce", "--backend", "auto", "--summary", SummaryOf(rank)}));
    }
  }
  std::string SummaryOf(int rank) const { return dir_.File(std::to_string(rank)); }
  std::string HashOf(int rank) const {
    return nlohmann::json::parse(ReadFile(SummaryOf(rank))).at("parameters_sha256");
  }

  TempDir dir_;
  std::unique_ptr<RunningCoordinator> coordinator_;
  std::vector<std::unique_ptr<Process>> aggregators_;
  std::vector<std::unique_ptr<Process>> workers_;
};

TEST_F(SeparateAggregators, Run_ThreeSteps_TheHashOfBackEndCoordinator) {
  Start(3);
  for (const auto& worker : workers_) EXPECT_EQ(worker->Wait(kTimeout).value_or(-1), 0);
  for (const auto& aggregator : aggregators_) EXPECT_EQ(aggregator->Wait(kTimeout).value_or(-1), 0);
  EXPECT_EQ(coordinator_->process().Wait(kTimeout).value_or(-1), 0);
  const LaunchResult other =
      RunLaunch(2, TinyRun(3) + Options{"--sync", "gather-scatter", "--backend", "coordinator"});
  EXPECT_EQ(HashOf(0), HashOf(1));
  EXPECT_EQ(HashOf(0), other.ranks.at(0).at("parameters_sha256"));
}

TEST_F(SeparateAggregators, Run_AggregatorKilled_AllEndAndNameIt) {
  Start(1000);
  ASSERT_TRUE(coordinator_->WaitForStep(1).ok());
  aggregators_[1]->Signal(SIGKILL);
  for (const auto& worker : workers_) {
    EXPECT_EQ(worker->Wait(kTimeout).value_or(-1), 1);
    EXPECT_THAT(worker->err(), ::testing::ContainsRegex("aggregator [01] .*was lost in step"));
  }
  EXPECT_EQ(coordinator_->process().Wait(kTimeout).value_or(-1), 1);
}

TEST_F(SeparateAggregators, Run_AggregatorStopped_EndsWithItsSignal) {
  Start(1000);
  ASSERT_TRUE(coordinator_->WaitForStep(1).ok());
  aggregators_[0]->Signal(SIGTERM);
  EXPECT_EQ(aggregators_[0]->Wait(kTimeout).value_or(-1), 128 + SIGTERM);
  for (const auto& worker : workers_) EXPECT_EQ(worker->Wait(kTimeout).value_or(-1), 1);
}

}  // namespace
}  // namespace gradwire::testing::aggregators_test
