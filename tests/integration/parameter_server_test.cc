// Sync parameter-server in real programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "tests/support/launch.h"
#include "tests/support/sockets.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing::parameter_server_test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr absl::Duration kTimeout = absl::Seconds(60);
const Options kLenet = {"--model", "lenet"};
const Options kServed = {"--sync", "parameter-server"};
const Options kGathered = {"--sync", "gather-scatter"};

// The one hash that all ranks end with.
TEST(ParameterServer, NoStaleness_AnyOptimizerAndDealOfRanks_HashOfGatherScatter) {
  const Options adam = TinyRun(4) + kLenet + Options{"--optimizer", "adam"};
  EXPECT_EQ(HashOf(3, adam + kServed), HashOf(3, adam + kGathered));
  const Options sgd = TinyRun(4) + kLenet +
                      Options{"--nesterov", "--lr-schedule", "cosine", "--weight-decay", "0.01"};
  const std::string expected = HashOf(3, sgd + kGathered);
  EXPECT_EQ(HashOf(3, sgd + kServed), expected);
  EXPECT_EQ(HashOf(2, sgd + kServed, {"--world-size", "3"}), expected);
  EXPECT_EQ(HashOf(1, sgd + kServed, {"--world-size", "3"}), expected);
}

// VGG-11 has statistics of BatchNorm.
TEST(ParameterServer, NoStaleness_BuffersOfGatherScatter) {
  const LaunchResult served = RunLaunch(2, TinyRun(2) + kServed);
  const LaunchResult gathered = RunLaunch(2, TinyRun(2) + kGathered);
  ASSERT_EQ(served.exit_code, 0) << served.err;
  for (const char* key : {"parameters_sha256", "buffers_sha256"}) {
    EXPECT_THAT(served.Distinct(key), SizeIs(1));
    EXPECT_EQ(served.Distinct(key), gathered.Distinct(key));
  }
}

TEST(ParameterServer, Staleness_OneModelAtTheEndAndClocksWithinTheBound) {
  const LaunchResult run =
      RunLaunch(3, TinyRun(12) + kLenet + kServed + Options{"--staleness", "2", "--evaluate"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.Distinct("parameters_sha256"), SizeIs(1));
  EXPECT_THAT(run.Distinct("test"), SizeIs(1));
  for (const auto& rank : run.ranks) {
    EXPECT_LE(rank["staleness"]["lag"]["max"], 3);
    EXPECT_LE(rank["staleness"]["spread"]["max"], 3);
  }
  EXPECT_THAT(run.out, HasSubstr("max lag"));
}

// Two workers, of which the first one is stopped while it trains.
class SlowRank : public ::testing::Test {
 protected:
  static constexpr int kSteps = 300;

  void Start(const std::string& staleness) {
    coordinator_ = std::make_unique<RunningCoordinator>(2, Options{"--lease-seconds", "60"});
    for (int rank = 0; rank < 2; ++rank) {
      workers_.push_back(StartWorker(coordinator_->address(), rank,
                                     TinyRun(kSteps) + kLenet + kServed +
                                         Options{"--staleness", staleness, "--print-every", "1",
                                                 "--summary", SummaryOf(rank)}));
    }
    ASSERT_TRUE(workers_[0]->WaitForOutput("iteration 2/", kTimeout).ok());
    workers_[0]->Signal(SIGSTOP);
  }
  // Whether rank 1 gets at least `steps` ahead of rank 0 before long, by the coordinator's page.
  bool LeadBecomes(int steps) const {
    for (const absl::Time end = SteadyNow() + kTimeout; SteadyNow() < end;) {
      const auto page = HttpGet(coordinator_->metrics_address(), "/status.json");
      if (page.ok()) {
        const auto ranks = nlohmann::json::parse(page->body)["ranks"];
        const int ahead = ranks[1]["steps_done"].get<int>() - ranks[0]["steps_done"].get<int>();
        if (ahead >= steps) return true;
      }
      absl::SleepFor(absl::Milliseconds(5));
    }
    return false;
  }
  void End() {
    workers_[0]->Signal(SIGCONT);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(workers_[rank]->Wait(kTimeout).value_or(-1), 0) << workers_[rank]->err();
      summaries_.push_back(nlohmann::json::parse(ReadFile(SummaryOf(rank))));
    }
    EXPECT_EQ(summaries_[0]["parameters_sha256"], summaries_[1]["parameters_sha256"]);
  }
  std::string SummaryOf(int rank) const { return dir_.File(std::to_string(rank)); }

  TempDir dir_;
  std::unique_ptr<RunningCoordinator> coordinator_;
  std::vector<std::unique_ptr<Process>> workers_;
  std::vector<nlohmann::json> summaries_;
};

TEST_F(SlowRank, NoBound_OtherDoesAllSteps) {
  Start("inf");
  ASSERT_TRUE(workers_[1]->WaitForOutput("iteration 298/", kTimeout).ok()) << workers_[1]->err();
  End();
  EXPECT_GE(summaries_[0]["staleness"]["lag"]["max"], 10);
}

// LeNet is one piece, so its clocks are those of the ranks.
TEST_F(SlowRank, Bound_OtherIsHeldUpThere) {
  Start("4");
  EXPECT_TRUE(LeadBecomes(4)) << workers_[1]->err();
  End();
  for (const auto& summary : summaries_) EXPECT_LE(summary["staleness"]["spread"]["max"], 5);
}

TEST(ParameterServer, SeparateAggregators_HashOfGatherScatter) {
  const TempDir dir;
  RunningCoordinator coordinator(2, {"--aggregators", "2"});
  std::vector<std::unique_ptr<Process>> all;
  for (int i = 0; i < 2; ++i) {
    all.push_back(Process::Start(
        "gradwire-coordinator", {"--aggregate-only", "true", "--coordinator", coordinator.address(),
                                 "--listen", "127.0.0.1:0", "--metrics", "off"}));
  }
  const Options run = TinyRun(4) + kLenet;
  for (int rank = 0; rank < 2; ++rank) {
    all.push_back(StartWorker(
        coordinator.address(), rank,
        run + kServed + Options{"--backend", "sharded", "--summary", dir.File("{rank}")}));
  }
  for (const auto& process : all) {
    EXPECT_EQ(process->Wait(kTimeout).value_or(-1), 0) << process->err();
  }
  const auto summary = nlohmann::json::parse(ReadFile(dir.File("1")));
  EXPECT_EQ(summary["parameters_sha256"].dump(), HashOf(2, run + kGathered));
}

TEST(ParameterServer, WorkersAsAggregators_SaysWhatIsNeeded) {
  const LaunchResult run =
      RunLaunch(2, TinyRun(4) + kLenet + kServed + Options{"--backend", "sharded"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err,
              HasSubstr("got back end sharded without separate aggregators, expected some"));
}

TEST(ParameterServer, WorkerKilled_NoBound_OthersStopAndSayWho) {
  RunningCoordinator coordinator(2);
  std::vector<std::unique_ptr<Process>> workers;
  for (int rank = 0; rank < 2; ++rank) {
    workers.push_back(
        StartWorker(coordinator.address(), rank,
                    TinyRun(100000) + kLenet + kServed + Options{"--staleness", "inf"}));
  }
  ASSERT_TRUE(workers[0]->WaitForOutput("iteration 9/", kTimeout).ok());
  workers[1]->Signal(SIGKILL);
  EXPECT_EQ(workers[0]->Wait(kTimeout).value_or(-1), 1);
  EXPECT_THAT(workers[0]->err(), ContainsRegex("rank 1 .*was lost in step [0-9]+: "));
}

TEST(ParameterServer, WrongStaleness_BadUsage) {
  const LaunchResult run =
      RunLaunch(2, TinyRun(4) + kLenet + kServed + Options{"--staleness", "x"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("got 'x', expected a number of steps, 0 or more, or inf"));
}

}  // namespace
}  // namespace gradwire::testing::parameter_server_test
