// Ranks with models of their own (syncs local-sgd and diloco), in real programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/launch.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const Options kLenet = {"--model", "lenet"};

// The one hash that all ranks end with.
class LocalTrainingHash : public ::testing::TestWithParam<const char*> {};

TEST_P(LocalTrainingHash, AnyExactBackendAndDealOfRanks_OneHash) {
  const Options run =
      TinyRun(5) + kLenet + Options{"--sync", GetParam(), "--delay", "1", "--optimizer", "adamw"};
  const std::string expected = HashOf(3, run);
  EXPECT_EQ(HashOf(3, run + Options{"--backend", "ring"}), expected);
  EXPECT_EQ(HashOf(2, run, {"--world-size", "3"}), expected);
}

using LongLocalTrainingHash = LocalTrainingHash;

TEST_P(LongLocalTrainingHash, MoreBackEndsAndDeals_OneHash) {
  const Options run =
      TinyRun(5) + kLenet + Options{"--sync", GetParam(), "--delay", "1", "--optimizer", "adamw"};
  const std::string expected = HashOf(3, run);
  for (const char* backend : {"coordinator", "sharded"}) {
    EXPECT_EQ(HashOf(3, run + Options{"--backend", backend}), expected) << backend;
  }
  EXPECT_EQ(HashOf(1, run, {"--world-size", "3"}), expected);
}

const auto kLocalSyncs = ::testing::Values("local-sgd:2", "diloco:3");
std::string LocalSyncName(const ::testing::TestParamInfo<const char*>& info) {
  return *info.param == 'd' ? "Diloco" : "LocalSgd";
}
INSTANTIATE_TEST_SUITE_P(Syncs, LocalTrainingHash, kLocalSyncs, LocalSyncName);
INSTANTIATE_TEST_SUITE_P(Long, LongLocalTrainingHash, kLocalSyncs, LocalSyncName);

// VGG-11 has statistics of BatchNorm.
TEST(LocalTraining, Buffers_AreAveragedUnlessToldOtherwise) {
  const Options run = TinyRun(3) + Options{"--sync", "local-sgd:2"};
  EXPECT_THAT(RunLaunch(2, run).Distinct("buffers_sha256"), SizeIs(1));
  const LaunchResult own = RunLaunch(2, run + Options{"--broadcast-buffers", "false"});
  EXPECT_THAT(own.Distinct("buffers_sha256"), SizeIs(2));
  EXPECT_THAT(own.Distinct("parameters_sha256"), SizeIs(1));
}

TEST(LocalTraining, StepLog_TwoRanks_BytesOnlyInStepsWithAnExchange) {
  const TempDir dir;
  const LaunchResult run =
      RunLaunch(2, TinyRun(5) + kLenet +
                       Options{"--sync", "local-sgd:2", "--shared-memory", "off", "--log-jsonl",
                               dir.File("{rank}.jsonl")});
  ASSERT_THAT(run.ranks, SizeIs(2)) << run.err;
  constexpr int kModel = 4 * 62'006;
  std::vector<int> sent;
  std::vector<bool> communicated;
  std::istringstream lines(ReadFile(dir.File("1.jsonl")));
  for (std::string line; std::getline(lines, line);) {
    const auto step = nlohmann::json::parse(line);
    if (step.contains("kind")) continue;
    sent.push_back(step["bytes_sent"]);
    communicated.push_back(step["phase_seconds"]["communication"] > 0);
  }
  EXPECT_THAT(sent, ElementsAre(0, kModel, 0, kModel, kModel));
  EXPECT_THAT(communicated, ElementsAre(false, true, false, true, true));
  EXPECT_EQ(run.ranks[1]["bytes_sent"], 3 * kModel);
  EXPECT_EQ(run.ranks[1]["sync"], "local-sgd:2");
}

TEST(LocalTraining, Evaluate_AtTheEnd_SameOnAllRanks) {
  const LaunchResult run =
      RunLaunch(2, TinyRun(3) + kLenet + Options{"--sync", "diloco:2", "--evaluate"});
  ASSERT_THAT(run.ranks, SizeIs(2)) << run.err;
  EXPECT_EQ(run.ranks[0]["test"], run.ranks[1]["test"]);
}

TEST(LocalTraining, WorkerKilled_WhileOthersTrain_OthersStopAndSayWho) {
  RunningCoordinator coordinator(2);
  std::vector<std::unique_ptr<Process>> workers;
  for (int rank = 0; rank < 2; ++rank) {
    workers.push_back(
        StartWorker(coordinator.address(), rank,
                    TinyRun(100000) + kLenet + Options{"--sync", "local-sgd:4", "--delay", "3"}));
  }
  ASSERT_TRUE(workers[0]->WaitForOutput("iteration 9/", absl::Seconds(60)).ok());
  workers[1]->Signal(SIGKILL);
  const auto code = workers[0]->Wait(absl::Seconds(4));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 1);
  EXPECT_THAT(workers[0]->err(), ContainsRegex("rank 1 .*was lost in step [0-9]+: "));
}

TEST(LocalTraining, NoInterval_BadUsage) {
  const ProgramResult ended = RunGradwire({"launch", "--workers", "2", "--", "--sync", "diloco:0"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("got 'diloco:0', expected diloco:H"));
}

}  // namespace
}  // namespace gradwire::testing
