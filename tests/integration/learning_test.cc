// Whole runs of the real programs: optimiser, schedule and evaluations on any number of processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/launch.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// Four ranks on `workers` processes train two epochs of 25 iterations.
LaunchResult Train(int workers, const Options& more = {}) {
  return RunLaunch(
      workers,
      Options{"--dataset", "synthetic", "--model", "mlp", "--batch-size", "500", "--epochs", "2",
              "--threads", "1", "--evaluate-every", "1", "--optimizer", "adam", "--lr-schedule",
              "cosine", "--warmup-epochs", "1"} +
          more,
      {"--world-size", "4"});
}

// What is to be equal on all ranks of all runs.
std::string ResultOf(const nlohmann::json& rank) {
  return absl::StrCat(rank["parameters_sha256"].dump(), rank["epochs"][0]["test"].dump(),
                      rank["epochs"][1]["test"].dump(), rank["test"].dump());
}

TEST(Learning, EvaluationsDividedOverRanks_AnyProcessesAndLoaders_SameBits) {
  std::set<std::string> results;
  for (const LaunchResult& run : {Train(1), Train(2, {"--loaders", "3"})}) {
    ASSERT_THAT(run.ranks, SizeIs(4)) << run.err;
    for (const auto& rank : run.ranks) results.insert(ResultOf(rank));
  }
  EXPECT_THAT(results, SizeIs(1));
}

TEST(Learning, TwoEpochs_RowsOfEachInSummaryAndOnStderr) {
  const LaunchResult run = Train(2);
  ASSERT_THAT(run.ranks, SizeIs(4)) << run.err;
  for (const auto& rank : run.ranks) {
    ASSERT_THAT(rank["epochs"], SizeIs(2));
    EXPECT_EQ(rank["epochs"][1]["iterations"], 25);
    EXPECT_LE(rank["epochs"][1]["seconds_without_loading"], rank["epochs"][1]["seconds"]);
    EXPECT_EQ(rank["train"]["loss"], rank["epochs"][1]["loss"]);
    EXPECT_EQ(rank["test"], rank["epochs"][1]["test"]);
    // The end of the warm-up, and of the cosine.
    EXPECT_DOUBLE_EQ(rank["epochs"][0]["lr"].get<double>(), 1e-3);
    EXPECT_NEAR(rank["epochs"][1]["lr"].get<double>(), 1e-3 * (1 + std::cos(M_PI * 0.96)) / 2,
                1e-12);
  }
  EXPECT_THAT(run.err, HasSubstr("epoch 2/2: loss"));
}

// As at the workers, neither the first of 50 iterations counts, nor the one with the evaluation.
TEST(Learning, EvaluationBetweenEpochs_ItsIterationIsLeftOutOfTheCoordinatorsTimes) {
  const LaunchResult run = Train(2, {"--sync", "gather-scatter", "--backend", "coordinator"});
  ASSERT_TRUE(run.coordinator.is_object()) << run.err;
  EXPECT_EQ(run.coordinator["iterations"], 48);
}

TEST(Learning, FrozenFeaturesOnTwoDevices_SummaryHasWhatIsTrainedAndWhatTheDevicesCost) {
  const TempDir dir;
  const auto worker = Process::Start(
      "gradwire-worker",
      TinyRun(3) + Options{"--sync", "data-parallel", "--devices", "2", "--model", "lenet",
                           "--freeze-features", "true", "--summary", dir.File("summary")});
  const auto code = worker->Wait(absl::Seconds(60));
  ASSERT_TRUE(code.ok()) << code.status();
  ASSERT_EQ(*code, 0) << worker->err();
  const auto summary = nlohmann::json::parse(ReadFile(dir.File("summary")));
  EXPECT_EQ(summary["trained_parameters"], 59134);  // 400 x 120, 120 x 84 and 84 x 10, and biases
  EXPECT_EQ(summary["frozen_sha256"]["first"].get<std::string>().size(), 64u);
  EXPECT_EQ(summary["frozen_sha256"]["last"], summary["frozen_sha256"]["first"]);
  EXPECT_GT(summary["barrier_seconds"].get<double>(), 0);
  EXPECT_GT(summary["bytes_sent"].get<int64_t>(), 0);
  EXPECT_EQ(summary["bytes_received"], summary["bytes_sent"]);
  EXPECT_GT(summary["phase_seconds"]["communication"].get<double>(), 0);
}

TEST(Learning, Inference_Summary_HasNoTrainedParameters) {
  const TempDir dir;
  const auto worker =
      Process::Start("gradwire-worker",
                     TinyRun(2) + Options{"--sync", "data-parallel", "--inference", "native",
                                          "--model", "lenet", "--summary", dir.File("summary")});
  const auto code = worker->Wait(absl::Seconds(60));
  ASSERT_TRUE(code.ok()) << code.status();
  ASSERT_EQ(*code, 0) << worker->err();
  const auto summary = nlohmann::json::parse(ReadFile(dir.File("summary")));
  EXPECT_EQ(summary["trained_parameters"], 0);
  EXPECT_TRUE(summary.contains("outputs_sha256"));
}

}  // namespace
}  // namespace gradwire::testing
