// `gradwire bench` and `gradwire plan`, with real processes on this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/launch.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::Options;
using testing::ProgramResult;
using testing::RunGradwire;
using testing::operator+;

TEST(BenchCollectives, EveryBackendAndWire_IsMeasuredAndRight) {
  const testing::TempDir dir;
  const ProgramResult result =
      RunGradwire({"bench", "collectives", "--workers", "3", "--sizes", "4,20000,1M", "--wire",
                   "fp32,bf16", "--warmup", "2", "--iterations", "5", "--json", dir.File("x.json"),
                   "--csv", dir.File("x.csv"), "--markdown", dir.File("x.md")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(testing::ReadFile(dir.File("x.json")));
  ASSERT_GE(json["rows"].size(), 3u * 2 * 3);
  for (const auto& row : json["rows"]) {
    EXPECT_EQ(row["wrong"], 0) << row;
    EXPECT_EQ(row["iterations"], 5) << row;
    EXPECT_GT(row["p50_us"], 0) << row;
    EXPECT_TRUE(row["bound_percent"].is_null()) << row;
  }
  EXPECT_THAT(testing::ReadFile(dir.File("x.csv")),
              HasSubstr("\nall-reduce,1048576,262144,float32,ring,bf16,own,5,"));
  EXPECT_THAT(testing::ReadFile(dir.File("x.md")), HasSubstr("| all-reduce | 1,048,576 |"));
  EXPECT_EQ(result.out, "");
}

TEST(BenchCollectives, Coordinator_HasItsCpuTimeInTheTable) {
  const testing::TempDir dir;
  const ProgramResult result =
      RunGradwire({"bench", "collectives", "--workers", "2", "--backends", "coordinator", "--sizes",
                   "4M", "--warmup", "1", "--iterations", "5", "--json", dir.File("x.json")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto row = nlohmann::json::parse(testing::ReadFile(dir.File("x.json")))["rows"][0];
  EXPECT_GT(row["cpu_seconds_per_gb"], 0);
}

TEST(BenchTraining, OwnSetups_HaveTheirTimes) {
  const testing::TempDir dir;
  const ProgramResult result = RunGradwire(
      {"bench", "training", "--workers", "2", "--setups", "computation,all-reduce", "--rounds", "1",
       "--iterations", "3", "--batch-size", "2", "--json", dir.File("x.json")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(testing::ReadFile(dir.File("x.json")));
  ASSERT_EQ(json["setups"].size(), 2u);
  EXPECT_EQ(json["setups"][1]["iterations"], 2);
  EXPECT_GT(json["setups"][1]["exposed_seconds"], 0);
  EXPECT_DOUBLE_EQ(json["setups"][0]["efficiency_percent"], 100);
  EXPECT_THAT(result.out, HasSubstr("| all-reduce "));
}

TEST(BenchTraining, ComputeSeconds_AreSleptByAllSetupsAndSaid) {
  const testing::TempDir dir;
  const ProgramResult result = RunGradwire(
      {"bench", "training", "--workers", "2", "--peers", "--setups",
       "computation,ddp,gloo-ddp-tuned", "--rounds", "1", "--iterations", "3", "--batch-size", "2",
       "--compute-seconds", "0.1,0.3", "--link-gbit", "1", "--json", dir.File("x.json")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(testing::ReadFile(dir.File("x.json")));
  ASSERT_EQ(json["setups"].size(), 4u);
  // A sleep that follows one that was too long is shorter.
  for (const auto& row : json["setups"]) EXPECT_GE(row["p50_seconds"], 0.3) << row;
  EXPECT_EQ(json["setups"][3]["p50_seconds"], 0.4);
  EXPECT_THAT(result.out, HasSubstr("computation emulated"));
  ASSERT_EQ(json["comparisons"].size(), 1u);
  EXPECT_EQ(json["comparisons"][0]["peer"], "gloo-ddp-tuned");
  EXPECT_FALSE(json["environment"]["pytorch"].get<std::string>().empty());
}

TEST(LongBenchTraining, Peer_StandsBesideItsCounterpart) {
  const testing::TempDir dir;
  const ProgramResult result =
      RunGradwire({"bench", "training", "--workers", "2", "--peers", "--setups",
                   "all-reduce,gloo-all-reduce,gloo-ddp-fp16", "--rounds", "1", "--iterations", "2",
                   "--batch-size", "2", "--json", dir.File("x.json")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(testing::ReadFile(dir.File("x.json")));
  ASSERT_EQ(json["comparisons"].size(), 1u);
  EXPECT_EQ(json["comparisons"][0]["peer"], "gloo-all-reduce");
  EXPECT_FALSE(json["environment"]["pytorch"].get<std::string>().empty());
}

TEST(BenchCollectives, Peer_IsMeasuredAndRight) {
  const testing::TempDir dir;
  const ProgramResult result = RunGradwire(
      {"bench", "collectives", "--workers", "2", "--peers", "--backends", "ring", "--sizes",
       "20000", "--warmup", "2", "--iterations", "5", "--json", dir.File("x.json")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto rows = nlohmann::json::parse(testing::ReadFile(dir.File("x.json")))["rows"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1]["backend"], "gloo (PyTorch)");
  EXPECT_EQ(rows[1]["wrong"], 0);
}

TEST(Bench, DataMissing_IsSaidBeforeAnythingStarts) {
  const testing::TempDir dir;
  const ProgramResult result =
      RunGradwire({"bench", "training", "--workers", "2", "--setups", "all-reduce", "--dataset",
                   "cifar10", "--data-dir", dir.path(), "--iterations", "2"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("data_batch_1.bin"));
  EXPECT_THAT(result.err, Not(HasSubstr("round 1")));
}

TEST(Bench, UnknownMeasurement_NamesTheNearest) {
  const ProgramResult result = RunGradwire({"bench", "trainign"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("unknown measurement trainign, expected one of collectives, "
                                    "training; did you mean training?"));
}

TEST(Plan, Vgg11_HasItsBytesAndBounds) {
  const testing::TempDir dir;
  const ProgramResult result = RunGradwire(
      {"plan", "--compute-seconds", "0.37", "--samples", "50000", "--json", dir.File("x.json")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("9231114 parameters"));
  const auto json = nlohmann::json::parse(testing::ReadFile(dir.File("x.json")));
  double gradient_bytes = 0;
  for (const auto& bucket : json["buckets"]) {
    if (bucket["what"] == "gradients, averaged") gradient_bytes += bucket["bytes"].get<double>();
  }
  EXPECT_EQ(gradient_bytes, 36924456);
  EXPECT_EQ(json["buckets"][0]["tensors"],
            nlohmann::json({"fc1.bias", "fc1.weight", "layers.26.bias", "layers.26.weight",
                            "layers.25.bias", "layers.25.weight"}));
  EXPECT_EQ(json["buckets"].back()["tensors"].size(), 24);
  EXPECT_THAT(result.out, HasSubstr("\n- 0: fc1.bias, fc1.weight, layers.26.bias, "));
  for (const auto& row : json["backends"]) {
    if (row["backend"] != "ring") continue;
    EXPECT_NEAR(row["overlap_seconds"].get<double>(), 0.463, 0.001);
    EXPECT_NEAR(row["barrier_seconds"].get<double>(), 0.833, 0.001);
  }
}

TEST(Plan, LocalSgd_AveragesFloatBuffersOnly) {
  const testing::TempDir dir;
  const ProgramResult result =
      RunGradwire({"plan", "--sync", "local-sgd:4", "--json", dir.File("x.json")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(testing::ReadFile(dir.File("x.json")));
  EXPECT_EQ(json["buckets"].back()["tensors"].size(), 16);
}

TEST(Plan, PowerSgd_HasWhatTravelsWithEveryBackEnd) {
  const testing::TempDir dir;
  const ProgramResult result =
      RunGradwire({"plan", "--compress", "powersgd:2", "--json", dir.File("x.json")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(testing::ReadFile(dir.File("x.json")));
  double factor_bytes = 0;
  for (const auto& bucket : json["buckets"]) {
    if (bucket["what"] == "gradients, averaged") factor_bytes += bucket["bytes"].get<double>();
  }
  EXPECT_EQ(factor_bytes, 4 * 55188);
  EXPECT_FALSE(json["buckets"][0].contains("tensors"));
  EXPECT_EQ(json["backends"].size(), 7);
}

TEST(Plan, SummaryOfARun_StandsBesideThePlan) {
  const testing::TempDir dir;
  const ProgramResult launched =
      RunGradwire(Options{"launch", "--workers", "2", "--listen", "127.0.0.1:0", "--metrics", "off",
                          "--summary", dir.File("s.json"), "--"} +
                  testing::TinyRun(3) + Options{"--sync", "all-reduce", "--backend", "ring"});
  ASSERT_EQ(launched.exit_code, 0) << launched.err;
  const ProgramResult result =
      RunGradwire({"plan", "--summary", dir.File("s.json"), "--json", dir.File("x.json")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(testing::ReadFile(dir.File("x.json")));
  for (const auto& row : json["backends"]) {
    if (row["backend"] != "ring") continue;
    EXPECT_GT(row["measured_seconds"], 0);
    EXPECT_NEAR(row["measured_bytes"].get<double>(), row["worker_bytes"].get<double>(), 22080);
  }
}

TEST(Plan, NoSuchSummary_IsRefused) {
  const ProgramResult result = RunGradwire({"plan", "--summary", "/no/such/file"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--summary: cannot read '/no/such/file'"));
}

}  // namespace
}  // namespace gradwire
