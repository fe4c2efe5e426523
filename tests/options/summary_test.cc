#include "worker/summary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

IterationRecord Record(double seconds, double loss) {
  IterationRecord record;
  record.loss = loss;
  record.times.iteration = absl::Seconds(seconds);
  record.times.forward = absl::Seconds(seconds / 2);
  record.samples = 8;
  record.padded = 1;
  record.bytes_sent = 100;
  record.bytes_received = 50;
  return record;
}

Summary Recorded(const std::vector<IterationRecord>& records, int64_t print_every) {
  SummaryRecorder recorder(print_every);
  for (const IterationRecord& record : records) recorder.Add(record);
  Summary summary;
  recorder.FillIn(&summary);
  return summary;
}

TEST(DistributionOf, KnownValues_InterpolatesLinearly) {
  const Distribution of = DistributionOf({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(of.mean, 2.5);
  EXPECT_DOUBLE_EQ(of.p50, 2.5);
  EXPECT_DOUBLE_EQ(of.p90, 3.7);
  EXPECT_DOUBLE_EQ(of.p99, 3.97);
}

TEST(DistributionOf, OneValue_IsAllOfIt) {
  const Distribution of = DistributionOf({2});
  EXPECT_DOUBLE_EQ(of.mean, 2);
  EXPECT_DOUBLE_EQ(of.p99, 2);
}

TEST(DistributionOf, NoValue_IsNotANumber) { EXPECT_TRUE(std::isnan(DistributionOf({}).p50)); }

TEST(SummaryRecorder, Times_LeaveOutTheFirstIteration) {
  const Summary summary = Recorded({Record(100, 3), Record(1, 2), Record(3, 1)}, 0);
  EXPECT_EQ(summary.iterations, 3);
  EXPECT_DOUBLE_EQ(summary.iteration_seconds.mean, 2);
  EXPECT_DOUBLE_EQ(summary.phase_seconds.forward, 1);
}

TEST(SummaryRecorder, OneIteration_HasNoTimes) {
  const Summary summary = Recorded({Record(100, 3)}, 0);
  EXPECT_TRUE(std::isnan(summary.iteration_seconds.mean));
  EXPECT_TRUE(std::isnan(summary.phase_seconds.data));
  EXPECT_EQ(summary.first_loss, 3);
}

TEST(SummaryRecorder, NoIteration_HasNoLoss) {
  EXPECT_TRUE(std::isnan(Recorded({}, 0).first_loss));
}

TEST(SummaryRecorder, Losses_AreThoseOfPrintEvery) {
  const Summary summary =
      Recorded({Record(1, 5), Record(1, 4), Record(1, 3), Record(1, 2), Record(1, 1)}, 2);
  EXPECT_EQ(summary.losses, (std::vector<double>{4, 2}));
  EXPECT_EQ(summary.first_loss, 5);
  EXPECT_EQ(summary.last_loss, 1);
}

TEST(SummaryRecorder, Counts_AreSummedOverAllIterations) {
  const Summary summary = Recorded({Record(1, 5), Record(1, 4)}, 2);
  EXPECT_EQ(summary.samples_seen, 16);
  EXPECT_EQ(summary.samples_padded, 2);
  EXPECT_EQ(summary.bytes_sent, 200u);
  EXPECT_EQ(summary.bytes_received, 100u);
}

TEST(ToJson, Summary_HasTheFixedNames) {
  Summary summary;
  summary.test = TestResult{2.5, 0.25};
  std::vector<std::string> names;
  const nlohmann::ordered_json json = ToJson(summary);
  for (const auto& item : json.items()) names.push_back(item.key());
  EXPECT_EQ(
      names,
      (std::vector<std::string>{
          "rank",          "world_size",        "sync",           "backend",    "wire",
          "model",         "dataset",           "batch_size",     "iterations", "iteration_seconds",
          "phase_seconds", "bytes_sent",        "bytes_received", "loss",       "losses",
          "test",          "parameters_sha256", "buffers_sha256", "samples",    "failures"}));
  EXPECT_EQ(json["iteration_seconds"].dump(), R"({"mean":0.0,"p50":0.0,"p90":0.0,"p99":0.0})");
  EXPECT_EQ(json["phase_seconds"].dump(),
            R"({"data":0.0,"forward":0.0,"backward":0.0,"communication":0.0,)"
            R"("exposed_communication":0.0,"optimizer":0.0})");
  EXPECT_EQ(json["loss"].dump(), R"({"first":0.0,"last":0.0})");
  EXPECT_EQ(json["test"].dump(), R"({"loss":2.5,"accuracy":0.25})");
  EXPECT_EQ(json["samples"].dump(), R"({"seen":0,"padded":0})");
  EXPECT_EQ(json["failures"].dump(), R"({"views":0,"retries":0,"recomputed_ranks":0})");
}

TEST(ToJson, NumbersThatAreNotFinite_AreNull) {
  Summary summary;
  summary.last_loss = std::numeric_limits<double>::infinity();
  summary.losses = {std::numeric_limits<double>::quiet_NaN(), 1};
  const nlohmann::ordered_json json = ToJson(summary);
  EXPECT_TRUE(json["loss"]["last"].is_null());
  EXPECT_EQ(json["losses"].dump(), "[null,1.0]");
}

TEST(ToJson, NoTest_IsNull) { EXPECT_TRUE(ToJson(Summary())["test"].is_null()); }

TEST(WriteJsonFile, Folder_HoldsTheFileAlone) {
  testing::TempDir dir;
  ASSERT_TRUE(WriteJsonFile(dir.File("s.json"), {{"a", 1}}).ok());
  EXPECT_EQ(testing::ReadFile(dir.File("s.json")), "{\n  \"a\": 1\n}\n");
}

TEST(WriteJsonFile, NoSuchFolder_NamesFileAndCause) {
  testing::TempDir dir;
  const std::string path = dir.File("no/s.json");
  const absl::Status status = WriteJsonFile(path, {});
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(status.message(), "cannot write '" + path + "': No such file or directory");
}

}  // namespace
}  // namespace gradwire
