// Whole runs of the real programs: what the workers agree on in the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
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

const Options kGatherScatter = {"--sync", "gather-scatter", "--backend", "coordinator"};
const Options kRing = {"--sync", "all-reduce", "--backend", "ring"};
const Options kDdp = {"--sync", "ddp"};

class WorkersTest : public ::testing::TestWithParam<int> {};

TEST_P(WorkersTest, GatherScatter_ThreeSteps_AllRanksEndWithOneHash) {
  EXPECT_THAT(HashOf(GetParam(), TinyRun(3) + kGatherScatter), SizeIs(64 + 2));  // in quotes
}

TEST_P(WorkersTest, Ring_ThreeSteps_AllRanksEndWithOneHash) {
  EXPECT_THAT(HashOf(GetParam(), TinyRun(3) + kRing), SizeIs(64 + 2));
}

std::string WorkersName(const ::testing::TestParamInfo<int>& info) {
  return "Workers" + std::to_string(info.param);
}
// For three, see Ring_ThreeSteps_HashOfGatherScatter.
INSTANTIATE_TEST_SUITE_P(Averaging, WorkersTest, ::testing::Values(1), WorkersName);
INSTANTIATE_TEST_SUITE_P(Long, WorkersTest, ::testing::Values(2, 4), WorkersName);

TEST(LongAveraging, GatherScatter_OtherBucketSizes_SameHash) {
  const Options run = TinyRun(3) + kGatherScatter;
  const std::string expected = HashOf(2, run);
  for (const char* megabytes : {"0", "1", "100"}) {
    EXPECT_EQ(HashOf(2, run + Options{"--bucket-cap-mb", megabytes}), expected) << megabytes;
  }
}

// A model, and sizes of its buckets.
class DdpTest : public ::testing::TestWithParam<std::pair<const char*, Options>> {};

TEST_P(DdpTest, AnyBucketSizeAndBarrier_HashOfGatherScatter) {
  const auto& [model, sizes] = GetParam();
  const Options run = TinyRun(3) + Options{"--model", model};
  const std::string expected = HashOf(2, run + kGatherScatter);
  for (const std::string& megabytes : sizes) {
    EXPECT_EQ(HashOf(2, run + kDdp + Options{"--bucket-cap-mb", megabytes}), expected) << megabytes;
  }
  EXPECT_EQ(HashOf(2, run + kDdp + Options{"--barrier"}), expected);
}

INSTANTIATE_TEST_SUITE_P(Averaging, DdpTest,
                         ::testing::Values(std::make_pair("mlp", Options{"0", "0.5"})));
INSTANTIATE_TEST_SUITE_P(Long, DdpTest,
                         ::testing::Values(std::make_pair("vgg11",
                                                          Options{"0", "1", "5", "25", "1000"})));

TEST(Averaging, Accumulate_TwoPasses_StepsOfTwiceTheSamples) {
  const LaunchResult run = RunLaunch(2, TinyRun(3) + kDdp + Options{"--accumulate", "2"});
  ASSERT_THAT(run.ranks, SizeIs(2)) << run.err;
  EXPECT_EQ(run.ranks[1]["iterations"], 3);
  EXPECT_EQ(run.ranks[1]["samples"]["seen"], 3 * 2 * 4);
  EXPECT_THAT(run.Distinct("parameters_sha256"), SizeIs(1));
}

TEST(LongAveraging, GatherScatter_RunAgain_SameHash) {
  EXPECT_EQ(HashOf(3, TinyRun(3) + kGatherScatter), HashOf(3, TinyRun(3) + kGatherScatter));
}

TEST(Averaging, GatherScatter_OneWorker_EqualsTrainingWithoutSync) {
  EXPECT_EQ(HashOf(1, TinyRun(3) + kGatherScatter),
            HashOf(1, TinyRun(3) + Options{"--sync", "none"}));
}

// Of TinyRun's model; rank 0's buffers go to all.
constexpr int64_t kGradientBytes = 36'924'456;
constexpr int64_t kBufferBytes = 22'080;

// Three workers (the sum of two does not tell in which order they came), of which rank `late` is
// held back in some steps: it is stopped until the others have given to the step as much as the
// coordinator takes, and cannot go on without it.
class HeldBackRun {
 public:
  static constexpr int kWorkers = 3;

  HeldBackRun(int late, const Options& run) : late_(late) {
    for (int rank = 0; rank < kWorkers; ++rank) {
      workers_.push_back(
          StartWorker(coordinator_.address(), rank, run + Options{"--summary", Summary(rank)}));
    }
  }

  // Returns the number of steps, `most` or fewer, in which the rank's gradients came last.
  int HoldBack(int most) {
    const absl::Status begun = coordinator_.WaitForStep(1);
    EXPECT_TRUE(begun.ok()) << begun;
    int steps = 0;
    while (begun.ok() && steps < most && !HasEnded()) {
      if (CameLast()) ++steps;
    }
    return steps;
  }

  // Of the parameters of `rank`; empty, with the test failed, if its worker failed.
  std::string Hash(int rank) {
    const absl::StatusOr<int> code = workers_[rank]->Wait(absl::Seconds(60));
    EXPECT_TRUE(code.ok() && *code == 0) << workers_[rank]->err();
    const auto json = nlohmann::json::parse(ReadFile(Summary(rank)), nullptr, false);
    return json.is_object() ? json["parameters_sha256"].dump() : "";
  }

 private:
  static constexpr int64_t kStepBytes = kWorkers * kGradientBytes + kBufferBytes;
  static constexpr absl::Duration kStill = absl::Milliseconds(500);
  static constexpr absl::Duration kMostStopped = absl::Seconds(4);  // connections live longer
  static constexpr absl::Duration kMostOfAStep = absl::Seconds(60);

  std::string Summary(int rank) const { return dir_.File(absl::StrCat(rank)); }
  bool HasEnded() { return workers_[late_]->Wait(absl::ZeroDuration()).ok(); }

  // NaN, which equals nothing, if the coordinator is too busy to answer.
  double Metric(const std::string& name) const {
    const auto page = HttpGet(coordinator_.metrics_address(), "/metrics");
    if (!page.ok()) return std::nan("");
    const size_t at = page->body.find("\n" + name + " ");
    return at == std::string::npos ? 0 : std::stod(page->body.substr(at + 1 + name.size()));
  }
  double OfRank(int rank, const char* what) const {
    return Metric(absl::StrCat("gradwire_rank_lag_seconds_", what, "{rank=\"", rank, "\"}"));
  }
  // Of each rank, how much later than the first one's its gradients came, in seconds, in all steps
  // together; and in how many steps that was measured.
  std::vector<double> Waits() const {
    std::vector<double> waits;
    for (int rank = 0; rank < kWorkers; ++rank) waits.push_back(OfRank(rank, "sum"));
    return waits;
  }
  double Measured() const { return OfRank(late_, "count"); }

  // Stops the rank for part of a step. It may have given its gradients before: then they do not
  // come last.
  bool CameLast() {
    workers_[late_]->Signal(SIGSTOP);
    AwaitStandstill();
    const double measured = Measured();
    std::vector<double> before = Waits();
    workers_[late_]->Signal(SIGCONT);
    const absl::Time deadline = SteadyNow() + kMostOfAStep;
    while (Measured() == measured && !HasEnded() && SteadyNow() < deadline) {
      absl::SleepFor(absl::Milliseconds(2));
    }
    std::vector<double> waits = Waits();
    for (int rank = 0; rank < kWorkers; ++rank) waits[rank] -= before[rank];
    return waits[late_] >= absl::ToDoubleSeconds(kStill) &&
           std::max_element(waits.begin(), waits.end()) == waits.begin() + late_;
  }

  // Until part of a step's gradients have come, and nothing more has for some time.
  void AwaitStandstill() const {
    const absl::Time deadline = SteadyNow() + kMostStopped;
    double received = 0;
    absl::Time since = SteadyNow();
    while (SteadyNow() < std::min(since + kStill, deadline)) {
      absl::SleepFor(absl::Milliseconds(2));
      const double now = Metric("gradwire_bytes_total{direction=\"received\"}");
      const bool is_within_step = std::fmod(now, kStepBytes) > 0;
      if (now != received || !is_within_step) since = SteadyNow();
      received = now;
    }
  }

  const int late_;
  const TempDir dir_;
  RunningCoordinator coordinator_{
      kWorkers, {"--linger-seconds", "60", "--min-lease-seconds", "60", "--lease-seconds", "60"}};
  std::vector<std::unique_ptr<Process>> workers_;
};

class LateRankTest : public ::testing::TestWithParam<int> {};

TEST_P(LateRankTest, GatherScatter_OtherOrderOfArrival_SameHash) {
  const Options run = TinyRun(6) + kGatherScatter;
  const std::string expected = HashOf(HeldBackRun::kWorkers, run);
  HeldBackRun held(GetParam(), run);
  EXPECT_GT(held.HoldBack(/*most=*/2), 0);
  for (int rank = 0; rank < HeldBackRun::kWorkers; ++rank) {
    EXPECT_EQ(held.Hash(rank), expected) << "rank " << rank;
  }
}

// Rank 0's gradients are the first of the sum.
INSTANTIATE_TEST_SUITE_P(Averaging, LateRankTest, ::testing::Values(0));
INSTANTIATE_TEST_SUITE_P(Long, LateRankTest, ::testing::Values(1, 2));

// Torch's own instructions stay what they are.
class InstructionsTest : public ::testing::TestWithParam<Options> {};

TEST_P(InstructionsTest, EachSetOfThisProcessor_SameHash) {
  const Options run = TinyRun(3) + kGatherScatter + GetParam();
  const std::string expected = HashOf(2, run);
  for (const KernelSet& set : SupportedKernels()) {
    const Options chosen = {"--instructions", set.name};
    const LaunchResult result = RunLaunch(2, run + chosen, chosen);
    EXPECT_THAT(result.Distinct("parameters_sha256"), ElementsAre(expected)) << result.err;
    for (const char* who : {"coordinator", "rank 0", "rank 1"}) {
      EXPECT_THAT(result.err,
                  ContainsRegex(absl::StrCat("\\[", who, "\\].* instruction set ", set.name)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Averaging, InstructionsTest,
                         ::testing::Values(Options{"--compress", "int8", "--model", "lenet"}));
INSTANTIATE_TEST_SUITE_P(Long, InstructionsTest,
                         ::testing::Values(Options{"--wire", "bf16"},
                                           Options{"--compress", "int8"}));

TEST(Averaging, Ring_ThreeSteps_HashOfGatherScatter) {
  EXPECT_EQ(HashOf(3, TinyRun(3) + kRing), HashOf(3, TinyRun(3) + kGatherScatter));
}

TEST(LongAveraging, Ring_FiveSteps_HashOfGatherScatter) {
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
  constexpr int64_t kGradients = 3 * kGradientBytes;
  for (const auto& rank : run.ranks) {
    for (const char* direction : {"bytes_sent", "bytes_received"}) {
      EXPECT_GE(rank[direction].get<int64_t>(), kGradients);
      EXPECT_LE(rank[direction].get<int64_t>(), kGradients + 5 * kBufferBytes);
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
  constexpr size_t kFloatBytes = kBufferBytes - 8 * 8;
  EXPECT_THAT(run.Distinct("buffers"), SizeIs(2));
  EXPECT_EQ(run.ranks[0]["buffers"].get<std::string>().size(), (kFloatBytes + 2) / 3 * 4);
  const LaunchResult on_one_worker =
      RunLaunch(1, TinyRun(3) + kGatherScatter + Options{"--broadcast-buffers", "false"},
                {"--world-size", "2"});
  ASSERT_THAT(on_one_worker.ranks, SizeIs(2)) << on_one_worker.err;
  for (const int rank : {0, 1}) {
    EXPECT_EQ(on_one_worker.ranks[rank]["buffers_sha256"], run.ranks[rank]["buffers_sha256"]);
  }
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

// The second run has no step to do, only the evaluation.
TEST(Averaging, Evaluate_FinishedRunAgain_SameTestAccuracy) {
  const TempDir dir;
  WriteCifarFiles(dir.path(), 4);
  const Options worker = {"--dataset",    "cifar10", "--data-dir", dir.path(), "--model",   "lenet",
                          "--batch-size", "3",       "--epochs",   "1",        "--threads", "1",
                          "--sync",       "ddp",     "--evaluate"};
  const Options keeps = {"--run-dir", dir.File("run")};
  const LaunchResult first = RunLaunch(2, worker, keeps);
  const LaunchResult again = RunLaunch(2, worker, keeps);
  ASSERT_THAT(again.ranks, SizeIs(2)) << again.err;
  EXPECT_EQ(again.ranks[0]["first_step"], 4);
  EXPECT_TRUE(again.ranks[0].contains("test"));
  EXPECT_EQ(again.Distinct("test"), first.Distinct("test"));
}

}  // namespace
}  // namespace gradwire::testing
