// Whole runs of the real programs: what the workers agree on in the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/fold/kernels.h"
#include "tests/support/cifar_files.h"
#include "tests/support/launch.h"
#include "tests/support/sockets.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::SizeIs;

const Options kGatherScatter = {"--sync", "gather-scatter"};
const Options kRing = {"--sync", "all-reduce"};
const Options kDdp = {"--sync", "ddp"};

class WorkersTest : public ::testing::TestWithParam<int> {};

TEST_P(WorkersTest, GatherScatter_ThreeSteps_AllRanksEndWithOneHash) {
  EXPECT_THAT(HashOf(GetParam(), TinyRun(3) + kGatherScatter), SizeIs(64 + 2));  // in quotes
}

TEST_P(WorkersTest, Ring_ThreeSteps_AllRanksEndWithOneHash) {
  EXPECT_THAT(HashOf(GetParam(), TinyRun(3) + kRing), SizeIs(64 + 2));
}

INSTANTIATE_TEST_SUITE_P(Averaging, WorkersTest, ::testing::Values(1, 2, 3, 4),
                         [](const auto& info) { return "Workers" + std::to_string(info.param); });

TEST(Averaging, GatherScatter_OtherBucketSizes_SameHash) {
  const Options run = TinyRun(3) + kGatherScatter;
  const std::string expected = HashOf(2, run);
  for (const char* megabytes : {"0", "1", "100"}) {
    EXPECT_EQ(HashOf(2, run + Options{"--bucket-cap-mb", megabytes}), expected) << megabytes;
  }
}

TEST(Averaging, Ddp_AnyBucketSizeAndBarrier_HashOfGatherScatter) {
  const std::string expected = HashOf(2, TinyRun(3) + kGatherScatter);
  for (const char* megabytes : {"0", "1", "5", "25", "1000"}) {
    EXPECT_EQ(HashOf(2, TinyRun(3) + kDdp + Options{"--bucket-cap-mb", megabytes}), expected)
        << megabytes;
  }
  EXPECT_EQ(HashOf(2, TinyRun(3) + kDdp + Options{"--barrier"}), expected);
}

TEST(Averaging, Accumulate_TwoPasses_StepsOfTwiceTheSamples) {
  const LaunchResult run = RunLaunch(2, TinyRun(3) + kDdp + Options{"--accumulate", "2"});
  ASSERT_THAT(run.ranks, SizeIs(2)) << run.err;
  EXPECT_EQ(run.ranks[1]["iterations"], 3);
  EXPECT_EQ(run.ranks[1]["samples"]["seen"], 3 * 2 * 4);
  EXPECT_THAT(run.Distinct("parameters_sha256"), SizeIs(1));
}

TEST(Averaging, GatherScatter_RunAgain_SameHash) {
  EXPECT_EQ(HashOf(3, TinyRun(3) + kGatherScatter), HashOf(3, TinyRun(3) + kGatherScatter));
}

TEST(Averaging, GatherScatter_OneWorker_EqualsTrainingWithoutSync) {
  EXPECT_EQ(HashOf(1, TinyRun(3) + kGatherScatter),
            HashOf(1, TinyRun(3) + Options{"--sync", "none"}));
}

// How much later than the other rank's a rank's gradients came, in all steps together.
double WaitForRank(const RunningCoordinator& coordinator, int rank) {
  const std::string text = HttpGet(coordinator.metrics_address(), "/metrics").value().body;
  const std::string name = absl::StrCat("gradwire_rank_wait_seconds_sum{rank=\"", rank, "\"} ");
  const size_t at = text.find(name);
  return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size()));
}

// Holds each rank back in turn, three quarters of its time, so that its gradients come last.
TEST(Averaging, GatherScatter_OtherOrderOfArrival_SameHash) {
  const Options run = TinyRun(6) + kGatherScatter;
  const std::string expected = HashOf(2, run);
  for (int late = 0; late < 2; ++late) {
    const TempDir dir;
    RunningCoordinator coordinator(2, {"--linger-seconds", "60"});
    const auto summary = [&dir](int rank) { return dir.File(std::to_string(rank)); };
    std::vector<std::unique_ptr<Process>> workers;
    for (int rank = 0; rank < 2; ++rank) {
      workers.push_back(
          StartWorker(coordinator.address(), rank, run + Options{"--summary", summary(rank)}));
    }
    ASSERT_TRUE(coordinator.WaitForStep(1).ok());
    for (int pulse = 0; pulse < 100 && !workers[late]->Wait(absl::Milliseconds(50)).ok(); ++pulse) {
      workers[late]->Signal(SIGSTOP);
      absl::SleepFor(absl::Milliseconds(150));
      workers[late]->Signal(SIGCONT);
    }
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(*workers[rank]->Wait(absl::Seconds(60)), 0) << workers[rank]->err();
      const auto json = nlohmann::json::parse(ReadFile(summary(rank)));
      EXPECT_EQ(json["parameters_sha256"].dump(), expected) << "late " << late;
    }
    EXPECT_GT(WaitForRank(coordinator, late), WaitForRank(coordinator, 1 - late));
  }
}

// Torch's own instructions stay what they are.
TEST(Averaging, Instructions_EachSetOfThisProcessor_SameHash) {
  for (const Options& wire : {Options{"--wire", "bf16"}, Options{"--compress", "int8"}}) {
    const Options run = TinyRun(3) + kGatherScatter + wire;
    const std::string expected = HashOf(2, run);
    for (const KernelSet& set : SupportedKernels()) {
      const Options chosen = {"--instructions", set.name};
      const LaunchResult result = RunLaunch(2, run + chosen, chosen);
      EXPECT_THAT(result.Distinct("parameters_sha256"), ElementsAre(expected)) << result.err;
      for (const char* who : {"coordinator", "rank 0", "rank 1"}) {
        EXPECT_THAT(result.err,
                    ContainsRegex(absl::StrCat("\\[", who, "\\].* instructions of ", set.name)));
      }
    }
  }
}

TEST(Averaging, Ring_FiveSteps_HashOfGatherScatter) {
  EXPECT_EQ(HashOf(4, TinyRun(5) + kRing), HashOf(4, TinyRun(5) + kGatherScatter));
}

TEST(Averaging, Summary_GatherScatter_HasTheDocumentedKeys) {
  const LaunchResult run = RunLaunch(2, TinyRun(3) + kGatherScatter);
  ASSERT_THAT(run.ranks, SizeIs(2)) << run.err;
  for (const char* key :
       {"rank", "world_size", "sync", "backend", "wire", "model", "dataset", "batch_size",
        "iterations", "iteration_seconds", "phase_seconds", "bytes_sent", "bytes_received", "loss",
        "losses", "parameters_sha256", "buffers_sha256", "samples", "failures"}) {
    EXPECT_TRUE(run.ranks[1].contains(key)) << key;
  }
  EXPECT_EQ(run.ranks[0]["rank"], 0);
  EXPECT_EQ(run.ranks[1]["rank"], 1);
  EXPECT_EQ(run.ranks[1]["backend"], "coordinator");
  EXPECT_EQ(run.ranks[1]["samples"]["seen"], 3 * 4);
}

// Gradients once up and once down a step: 36,924,456 bytes, and no more than the
// buffers on top.
TEST(Averaging, Summary_GatherScatter_CountsThePayloadsBytes) {
  const LaunchResult run = RunLaunch(2, TinyRun(3) + kGatherScatter);
  ASSERT_THAT(run.ranks, SizeIs(2)) << run.err;
  constexpr int64_t kGradients = 3 * int64_t{36'924'456};
  for (const auto& rank : run.ranks) {
    for (const char* direction : {"bytes_sent", "bytes_received"}) {
      EXPECT_GE(rank[direction].get<int64_t>(), kGradients);
      EXPECT_LE(rank[direction].get<int64_t>(), kGradients + 5 * 22'080);
    }
  }
}

TEST(Averaging, BroadcastBuffers_On_AllRanksHaveTheBuffersOfRankZero) {
  const LaunchResult run =
      RunLaunch(2, TinyRun(3) + kGatherScatter + Options{"--broadcast-buffers", "true"});
  EXPECT_THAT(run.Distinct("buffers_sha256"), SizeIs(1)) << run.err;
}

TEST(Averaging, BroadcastBuffers_Off_RanksKeepTheirOwn) {
  const LaunchResult run =
      RunLaunch(2, TinyRun(3) + kGatherScatter + Options{"--broadcast-buffers", "false"});
  EXPECT_THAT(run.Distinct("buffers_sha256"), SizeIs(2)) << run.err;
  EXPECT_THAT(run.Distinct("parameters_sha256"), SizeIs(1));
  // Running means and variances, in base64: four digits for three bytes, and what fills up.
  constexpr size_t kFloatBytes = 22'080 - 8 * 8;
  EXPECT_THAT(run.Distinct("buffers"), SizeIs(2));
  EXPECT_EQ(run.ranks[0]["buffers"].get<std::string>().size(), (kFloatBytes + 2) / 3 * 4);
}

TEST(Averaging, Cifar10_OneEpochAndEvaluate_ReportsTestAccuracy) {
  const TempDir dir;
  WriteCifarFiles(dir.path(), 4);  // 20 training images: 3 a rank and step, 4 steps
  const LaunchResult run =
      RunLaunch(2, Options{"--dataset", "cifar10", "--data-dir", dir.path(), "--batch-size", "3",
                           "--epochs", "1", "--threads", "1", "--lr", "0.01", "--evaluate"} +
                       kGatherScatter);
  ASSERT_THAT(run.ranks, SizeIs(2)) << run.err;
  EXPECT_EQ(run.ranks[0]["iterations"], 4);
  EXPECT_EQ(run.ranks[0]["samples"]["seen"], 10);
  const double accuracy = run.ranks[0]["test"]["accuracy"];
  EXPECT_GE(accuracy, 0);
  EXPECT_LE(accuracy, 1);
}

}  // namespace
}  // namespace gradwire::testing
