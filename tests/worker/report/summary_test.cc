#include "worker/report/summary.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

// Each phase takes a twentieth of it more than the one before, the first a tenth.
double ShareOf(Phase phase) { return 0.1 + 0.05 * static_cast<int>(phase); }

StepRecord Lasting(double seconds) {
  StepRecord record;
  record.iteration = absl::Seconds(seconds);
  for (const PhaseInfo& info : kPhases) {
    record.phases[info.phase] = record.iteration * ShareOf(info.phase);
  }
  return record;
}

// Iterations of 100 s (the first), 1 s, 2 s, …; losses 10, 9, 8, …
Summary Collect(int steps, int64_t print_every = 2) {
  SummaryCollector collector(print_every);
  for (int i = 0; i < steps; ++i) {
    StepRecord record = Lasting(i == 0 ? 100 : i);
    record.step = Step(static_cast<uint64_t>(i));
    record.loss = 10 - i;
    record.samples = 64;
    record.padded = i % 2;
    collector.Add(record);
  }
  Summary summary;
  collector.Fill(summary);
  return summary;
}

std::vector<std::string> Keys(const nlohmann::ordered_json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

TEST(SummaryCollector, ModelThatIsServed_MeanAndMostOfLagAndSpread) {
  SummaryCollector collector(1);
  for (const uint64_t lag : {4, 1}) {
    StepRecord record;
    record.staleness = {lag, lag + 1};
    collector.Add(record);
  }
  Summary summary;
  collector.Fill(summary);
  EXPECT_EQ(nlohmann::json::parse(ToJson(summary))["staleness"],
            nlohmann::json::parse(
                R"({"lag": {"mean": 2.5, "max": 4}, "spread": {"mean": 3.5, "max": 5}})"));
}

TEST(SummaryCollector, SkippedSteps_AreCounted) {
  SummaryCollector collector(1);
  for (const bool skipped : {true, false, true}) {
    StepRecord record;
    record.skipped = skipped;
    collector.Add(record);
  }
  Summary summary;
  collector.Fill(summary);
  EXPECT_EQ(nlohmann::json::parse(ToJson(summary))["failures"]["skipped_steps"], 2);
}

TEST(ToJson, ResumedRun_SaysItsFirstStep) {
  Summary summary = Collect(3);
  EXPECT_FALSE(nlohmann::json::parse(ToJson(summary)).contains("first_step"));
  summary.first_step = 8;
  EXPECT_EQ(nlohmann::json::parse(ToJson(summary))["first_step"], 8);
  summary.first_step = 1;
  EXPECT_EQ(nlohmann::json::parse(ToJson(summary))["first_step"], 1);
}

TEST(SummaryCollector, BytesOfSeveralSteps_AreSumsOfEachDirection) {
  SummaryCollector collector(1);
  for (const uint64_t bytes : {1000, 3000}) {
    StepRecord record;
    record.bytes_sent = bytes;
    record.bytes_received = bytes + 1;
    collector.Add(record);
  }
  Summary summary;
  collector.Fill(summary);
  const auto json = nlohmann::json::parse(ToJson(summary));
  EXPECT_EQ(json["bytes_sent"], 4000);
  EXPECT_EQ(json["bytes_received"], 4002);
}

TEST(ToJson, HashesOfTheModel_AreThoseOfParametersAndBuffers) {
  Summary summary = Collect(3);
  summary.parameters_sha256 = "ab";
  summary.buffers_sha256 = "cd";
  const auto json = nlohmann::json::parse(ToJson(summary));
  EXPECT_EQ(json["parameters_sha256"], "ab");
  EXPECT_EQ(json["buffers_sha256"], "cd");
}

TEST(ToJson, GroupsInMemory_AreListsOfRanks) {
  Summary summary = Collect(3);
  EXPECT_FALSE(nlohmann::json::parse(ToJson(summary)).contains("in_memory"));
  summary.in_memory = {{0, 1}, {2, 3}};
  EXPECT_EQ(nlohmann::json::parse(ToJson(summary))["in_memory"].dump(), "[[0,1],[2,3]]");
}

TEST(ToJson, EndedEarly_WhyAndNothingOfTheModel) {
  Summary summary = Collect(3);
  summary.trained_parameters = 7;
  summary.parameters_sha256 = summary.buffers_sha256 = summary.outputs_sha256 = "ab";
  summary.frozen_sha256 = {"ab", "ab"};
  EXPECT_FALSE(nlohmann::json::parse(ToJson(summary)).contains("ended"));
  summary.ended = {75, "lost the coordinator"};
  const auto json = nlohmann::json::parse(ToJson(summary));
  EXPECT_EQ(json["ended"],
            nlohmann::json::parse(R"({"code": 75, "reason": "lost the coordinator"})"));
  EXPECT_EQ(json["iterations"], 3);
  EXPECT_EQ(json["loss"]["last"], 8);
  for (const char* field : {"trained_parameters", "parameters_sha256", "buffers_sha256",
                            "outputs_sha256", "frozen_sha256"}) {
    EXPECT_FALSE(json.contains(field)) << field;
  }
}

TEST(SummaryCollector, PeakMemory_IsTheLast) {
  SummaryCollector collector(1);
  for (const uint64_t peak : {1000, 3000}) {
    StepRecord record;
    record.peak_memory_bytes = peak;
    collector.Add(record);
  }
  Summary summary;
  collector.Fill(summary);
  EXPECT_EQ(nlohmann::json::parse(ToJson(summary))["peak_memory_bytes"], 3000);
}

TEST(SummaryCollector, CompressedGradients_RatioAndTheLastResidual) {
  SummaryCollector collector(1);
  for (const double residual : {0.5, 0.25}) {
    StepRecord record;
    record.compressed = {4, residual};
    collector.Add(record);
  }
  collector.Add(StepRecord());  // without an exchange
  Summary summary;
  collector.Fill(summary);
  summary.compression_ratio = 3.5;
  const auto json = nlohmann::json::parse(ToJson(summary));
  EXPECT_EQ(json["compression_ratio"], 3.5);
  EXPECT_EQ(json["residual_norm"], 0.25);
}

TEST(SummaryCollector, NothingCompressed_NoRatio) {
  const auto json = nlohmann::json::parse(ToJson(Collect(3)));
  EXPECT_FALSE(json.contains("compression_ratio"));
  EXPECT_FALSE(json.contains("residual_norm"));
}

TEST(Summary, EmulatedComputation_IsSaid) {
  Summary summary;
  EXPECT_FALSE(nlohmann::json::parse(ToJson(summary)).contains("emulated"));
  summary.emulated = {0.3, 0.6};
  EXPECT_EQ(nlohmann::json::parse(ToJson(summary))["emulated"],
            nlohmann::json::parse(R"({"forward_seconds": 0.3, "backward_seconds": 0.6})"));
}

TEST(SummaryCollector, NothingServed_NoStaleness) {
  EXPECT_FALSE(nlohmann::json::parse(ToJson(Collect(3))).contains("staleness"));
}

TEST(SummaryCollector, Fill_FiveSteps_LeavesTheFirstOutOfTheTimes) {
  const Summary summary = Collect(5);
  EXPECT_EQ(summary.iterations, 5);
  EXPECT_DOUBLE_EQ(summary.iteration_seconds.mean, 2.5);
  EXPECT_DOUBLE_EQ(summary.iteration_seconds.p50, 2.5);
  EXPECT_DOUBLE_EQ(summary.iteration_seconds.p90, 3.7);
}

TEST(SummaryCollector, Fill_FiveSteps_GivesMeanPhases) {
  const PhaseSeconds phases = Collect(5).phase_seconds;
  for (const PhaseInfo& info : kPhases) {
    EXPECT_THAT(phases[info.phase], DoubleNear(2.5 * ShareOf(info.phase), 1e-6)) << info.name;
  }
}

// Iterations of 1, 2, 3 and 4 s, whose variance is 5/3 and that of their mean 5/12.
TEST(SummaryCollector, Fill_FiveSteps_GivesOwnWorkAndItsStandardError) {
  const auto json = nlohmann::json::parse(ToJson(Collect(5)))["own_work_seconds"];
  const double own = 1 - ShareOf(Phase::kExposedCommunication);
  EXPECT_NEAR(json["mean"], 2.5 * own, 1e-6);
  EXPECT_NEAR(json["standard_error"], std::sqrt(5.0 / 12) * own, 1e-6);
}

TEST(SummaryCollector, Fill_TwoSteps_LeavesTheStandardErrorNull) {
  const auto json = nlohmann::json::parse(ToJson(Collect(2)))["own_work_seconds"];
  EXPECT_TRUE(json["mean"].is_number());
  EXPECT_TRUE(json["standard_error"].is_null());
}

TEST(SummaryCollector, Fill_PrintEveryTwo_GivesLosses0And2And4) {
  const Summary summary = Collect(5);
  EXPECT_THAT(summary.losses, ElementsAre(10, 8, 6));
  EXPECT_EQ(summary.loss.first, 10);
  EXPECT_EQ(summary.loss.last, 6);
}

// Of a run that resumed, or of a rank that was taken over: iterations count over the whole run.
TEST(SummaryCollector, Fill_BeginsAtALaterStep_GivesTheLossesOfTheSameIterations) {
  SummaryCollector collector(4);
  for (const uint64_t step : {5, 6, 7, 8, 9}) {
    StepRecord record;
    record.step = Step(step);
    record.loss = static_cast<double>(step);
    collector.Add(record);
  }
  Summary summary;
  collector.Fill(summary);
  EXPECT_THAT(summary.losses, ElementsAre(8));
  EXPECT_EQ(summary.iterations, 5);
  EXPECT_EQ(summary.loss.first, 5);
}

TEST(SummaryCollector, Fill_PrintEveryZero_GivesNoLosses) {
  EXPECT_THAT(Collect(5, 0).losses, ElementsAre());
}

TEST(SummaryCollector, Fill_FiveSteps_CountsSamples) {
  EXPECT_EQ(nlohmann::json::parse(ToJson(Collect(5)))["samples"],
            nlohmann::json::parse(R"({"seen": 320, "padded": 2})"));
}

TEST(SummaryCollector, Fill_OneStep_LeavesTimesNull) {
  const auto json = nlohmann::json::parse(ToJson(Collect(1)));
  EXPECT_TRUE(json["iteration_seconds"]["mean"].is_null());
  EXPECT_TRUE(json["iteration_seconds"]["p99"].is_null());
  EXPECT_TRUE(json["phase_seconds"]["communication"].is_null());
  EXPECT_TRUE(json["own_work_seconds"]["mean"].is_null());
  EXPECT_EQ(json["loss"]["last"], 10);
}

TEST(SummaryCollector, Fill_NoSteps_LeavesLossNull) {
  const auto json = nlohmann::json::parse(ToJson(Collect(0)));
  EXPECT_TRUE(json["loss"]["first"].is_null());
  EXPECT_EQ(json["iterations"], 0);
}

TEST(Describe, Unsorted_GivesInterpolatedPercentiles) {
  const IterationSeconds described = Describe({3, 1, 2, 5, 4});
  EXPECT_DOUBLE_EQ(described.p50, 3);
  EXPECT_DOUBLE_EQ(described.p90, 4.6);
  EXPECT_DOUBLE_EQ(described.p99, 4.96);
}

TEST(Describe, OneValue_IsAllOfThem) {
  const IterationSeconds described = Describe({2});
  EXPECT_EQ(described.mean, 2);
  EXPECT_EQ(described.p99, 2);
}

TEST(ToJson, Buffers_AreThereOnlyWhereRanksHaveTheirOwn) {
  Summary summary = Collect(3);
  EXPECT_FALSE(nlohmann::json::parse(ToJson(summary)).contains("buffers"));
  summary.buffers = "AACAPw==";
  EXPECT_EQ(nlohmann::json::parse(ToJson(summary))["buffers"], "AACAPw==");
}

TEST(ToJson, Always_HasTheFieldsThatScriptsRelyOn) {
  Summary summary = Collect(3);
  summary.test = Quality{2.2, 0.18};
  const auto json = nlohmann::ordered_json::parse(ToJson(summary));
  EXPECT_THAT(Keys(json),
              ElementsAre("rank", "world_size", "sync", "backend", "wire", "compress", "model",
                          "dataset", "batch_size", "accumulate", "iterations", "iteration_seconds",
                          "phase_seconds", "own_work_seconds", "ranks_of_worker", "bytes_sent",
                          "bytes_received", "peak_memory_bytes", "loss", "print_every", "losses",
                          "train", "test", "epochs", "trained_parameters", "parameters_sha256",
                          "buffers_sha256", "samples", "failures"));
  EXPECT_THAT(Keys(json["iteration_seconds"]), ElementsAre("mean", "p50", "p90", "p99"));
  EXPECT_THAT(Keys(json["phase_seconds"]),
              ElementsAre("data", "forward", "backward", "communication", "exposed_communication",
                          "optimizer"));
  EXPECT_THAT(Keys(json["loss"]), ElementsAre("first", "last"));
  EXPECT_THAT(Keys(json["train"]), ElementsAre("loss", "accuracy"));
  EXPECT_THAT(Keys(json["test"]), ElementsAre("loss", "accuracy"));
  EXPECT_THAT(Keys(json["samples"]), ElementsAre("seen", "padded"));
  EXPECT_THAT(Keys(json["failures"]),
              ElementsAre("views", "losses", "retries", "recomputed_ranks", "skipped_steps",
                          "seconds_lost", "seconds_lost_by_phase", "recoveries"));
}

TEST(ToJson, Configuration_EachFieldIsItsOwn) {
  Summary summary;
  summary.rank = 3;
  summary.world_size = 5;
  summary.sync = "diloco:8";
  summary.backend = "sharded";
  summary.wire = "bf16";
  summary.compress = "int8";
  summary.model = "lenet";
  summary.dataset = "mnist";
  summary.batch_size = 32;
  summary.accumulate = 4;
  auto got = nlohmann::json::parse(ToJson(summary));
  const auto expected = nlohmann::json::parse(R"({
    "rank": 3, "world_size": 5, "sync": "diloco:8", "backend": "sharded", "wire": "bf16",
    "compress": "int8", "model": "lenet", "dataset": "mnist", "batch_size": 32,
    "accumulate": 4})");
  for (const auto& [field, value] : expected.items()) EXPECT_EQ(got[field], value) << field;
}

TEST(ToJson, Failures_EachCountIsItsOwn) {
  Summary summary;
  summary.failures.views = 3;
  summary.failures.losses = 2;
  summary.failures.retries = 5;
  summary.failures.recomputed_ranks = 4;
  summary.failures.lost = {absl::Seconds(1), absl::Seconds(2), absl::Seconds(4)};
  EXPECT_EQ(nlohmann::json::parse(ToJson(summary))["failures"], nlohmann::json::parse(R"({
    "views": 3, "losses": 2, "retries": 5, "recomputed_ranks": 4, "skipped_steps": 0,
    "seconds_lost": 7.0, "recoveries": [],
    "seconds_lost_by_phase": {"computing": 1.0, "waiting": 2.0, "connecting": 4.0}})"));
}

TEST(ToJson, Recoveries_EachWithItsCost) {
  Summary summary;
  Recovery recovery;
  recovery.generation = Generation(2);
  recovery.step = Step(7);
  recovery.adopted = {Rank(1)};
  recovery.lost.computing = absl::Milliseconds(250);
  summary.failures.recoveries = {recovery};
  summary.failures.lost = recovery.lost;
  const auto failures = nlohmann::json::parse(ToJson(summary))["failures"];
  EXPECT_EQ(failures["seconds_lost"], 0.25);
  EXPECT_EQ(failures["seconds_lost_by_phase"]["computing"], 0.25);
  const auto row = failures["recoveries"][0];
  EXPECT_EQ(row["generation"], 2);
  EXPECT_EQ(row["first_step"], 7);
  EXPECT_EQ(row["adopted"], nlohmann::json({1}));
  EXPECT_EQ(row["seconds_lost"], 0.25);
}

TEST(SummaryCollector, Fill_WorkerThatTookARankOver_MeanOfTheIterationsThatCount) {
  SummaryCollector collector(1);
  Summary summary;
  collector.Add(StepRecord(), 1);
  collector.Fill(summary);
  EXPECT_TRUE(std::isnan(summary.mean_ranks_of_worker));
  for (const size_t ranks : {1, 2, 2, 2}) collector.Add(StepRecord(), ranks);
  collector.Fill(summary);
  EXPECT_EQ(summary.mean_ranks_of_worker, 1.75);
}

TEST(ToJson, RanksOfWorker_MeanAndThoseOfTheEnd) {
  Summary summary;
  summary.mean_ranks_of_worker = 1.5;
  summary.ranks_of_worker = {0, 2};
  EXPECT_EQ(nlohmann::json::parse(ToJson(summary))["ranks_of_worker"],
            nlohmann::json::parse(R"({"mean": 1.5, "last": [0, 2]})"));
}

TEST(ToJson, WithoutEvaluation_HasNoTest) {
  EXPECT_FALSE(nlohmann::json::parse(ToJson(Summary())).contains("test"));
}

TEST(ToJson, FrozenFeaturesAndInference_HaveTheirHashes) {
  Summary summary;
  summary.frozen_sha256 = {"a", "b"};
  summary.barrier_seconds = 0.25;
  summary.outputs_sha256 = "c";
  const auto json = nlohmann::json::parse(ToJson(summary));
  EXPECT_EQ(json["frozen_sha256"], nlohmann::json({{"first", "a"}, {"last", "b"}}));
  EXPECT_EQ(json["outputs_sha256"], "c");
  EXPECT_EQ(json["barrier_seconds"], 0.25);
}

TEST(ToJson, DivergedLoss_IsNull) {
  SummaryCollector collector(1);
  StepRecord record = Lasting(1);
  record.loss = std::numeric_limits<double>::infinity();
  collector.Add(record);
  Summary summary;
  collector.Fill(summary);
  const auto json = nlohmann::json::parse(ToJson(summary));
  EXPECT_TRUE(json["loss"]["last"].is_null());
  EXPECT_TRUE(json["losses"][0].is_null());
}

TEST(ToJson, NameThatIsNotUtf8_StaysJson) {
  Summary summary;
  summary.model = "vgg\xff";
  EXPECT_EQ(nlohmann::json::parse(ToJson(summary))["model"], "vgg\xEF\xBF\xBD");
}

TEST(WriteSummary, GoodPath_HoldsTheJson) {
  const testing::TempDir dir;
  const Summary summary = Collect(3);
  ASSERT_TRUE(WriteSummary(dir.File("summary.json"), summary).ok());
  EXPECT_EQ(testing::ReadFile(dir.File("summary.json")), ToJson(summary));
}

TEST(WriteSummary, NoSuchFolder_NamesPathAndCause) {
  const testing::TempDir dir;
  const std::string path = dir.File("missing/summary.json");
  EXPECT_EQ(WriteSummary(path, Summary()),
            absl::InternalError("cannot write " + path + ": no such file or directory"));
}

}  // namespace
}  // namespace gradwire
