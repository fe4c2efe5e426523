// --compress in whole runs of the real programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/support/launch.h"

namespace gradwire::testing::compress_test {
namespace {

using ::testing::SizeIs;

constexpr int kWorldSize = 4;
const Options kRanks = {"--world-size", std::to_string(kWorldSize)};
constexpr int kIterations = 40;

Options RunOf(const std::string& backend, const std::string& compress) {
  return {"--model",   "lenet",        "--dataset",
          "synthetic", "--iterations", std::to_string(kIterations),
          "--lr",      "0.01",         "--batch-size",
          "8",         "--threads",    "1",
          "--backend", backend,        "--print-every",
          "0",         "--compress",   compress};
}

LaunchResult RunWorkers(int workers, const Options& options) {
  LaunchResult run = RunLaunch(workers, options, kRanks);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.ranks, SizeIs(kWorldSize));
  return run;
}

class CompressTest : public ::testing::TestWithParam<std::string> {};

TEST_P(CompressTest, BackEndsProcessesBucketsAndConnections_OneHash) {
  const std::string expected = HashOf(4, RunOf("coordinator", GetParam()), kRanks);
  EXPECT_EQ(HashOf(2, RunOf("auto", GetParam()), kRanks), expected);
  EXPECT_EQ(HashOf(3, RunOf("sharded", GetParam()) + Options{"--connections", "2"}, kRanks),
            expected);
}

using LongCompressTest = CompressTest;

TEST_P(LongCompressTest, MoreDealsOfRanks_OneHash) {
  const std::string expected = HashOf(4, RunOf("coordinator", GetParam()), kRanks);
  EXPECT_EQ(HashOf(4, RunOf("sharded", GetParam()), kRanks), expected);
  EXPECT_EQ(HashOf(1, RunOf("sharded", GetParam()), kRanks), expected);
  EXPECT_NE(HashOf(4, RunOf("coordinator", "none"), kRanks), expected);
}

TEST_P(LongCompressTest, Losses_FallAsWithout) {
  // top-k is slow to begin with; at its learning rate PowerSGD's estimates overshoot.
  const bool is_low_rank = absl::StartsWith(GetParam(), "powersgd");
  const Options pace = is_low_rank ? Options{"--iterations", "80"} : Options{"--lr", "0.05"};
  const auto last_of = [&pace](const std::string& compress) {
    const LaunchResult run = RunWorkers(2, RunOf("sharded", compress) + pace);
    return run.ranks[0]["loss"]["last"].get<double>() / run.ranks[0]["loss"]["first"].get<double>();
  };
  EXPECT_LT(last_of("none"), 0.8);
  EXPECT_LT(last_of(GetParam()), 0.9);
}

const auto kCodecs = ::testing::Values("int8", "top-k:0.05", "powersgd:2");
std::string CodecName(const ::testing::TestParamInfo<std::string>& info) {
  return std::string(info.param, 0, 3);
}
INSTANTIATE_TEST_SUITE_P(Codecs, CompressTest, kCodecs, CodecName);
INSTANTIATE_TEST_SUITE_P(Long, LongCompressTest, kCodecs, CodecName);

TEST(Compress, Int8_Summary_NamesTheCodecAndCountsAQuarterOfTheBytes) {
  const LaunchResult full = RunWorkers(4, RunOf("coordinator", "none"));
  const LaunchResult run = RunWorkers(4, RunOf("coordinator", "int8"));
  EXPECT_EQ(run.ranks[0]["compress"], "int8");
  const double ratio =
      run.ranks[1]["bytes_sent"].get<double>() / full.ranks[1]["bytes_sent"].get<double>();
  EXPECT_NEAR(ratio, 0.251, 0.001);
  EXPECT_NEAR(run.ranks[0]["compression_ratio"].get<double>(), 1 / 0.251, 0.02);
  EXPECT_FALSE(full.ranks[0].contains("compression_ratio"));
}

// Of int8 little is left out, of the others much.
TEST(Compress, Summary_TellsWhatIsLeftOut) {
  const auto residual_of = [](const std::string& compress) {
    const LaunchResult run = RunWorkers(2, RunOf("sharded", compress));
    return run.ranks[3].value("residual_norm", 0.0);
  };
  const double rounded = residual_of("int8");
  EXPECT_GT(rounded, 0);
  EXPECT_LT(rounded, 0.1);
  EXPECT_GT(residual_of("top-k:0.01"), 1);
  EXPECT_GT(residual_of("powersgd:1"), 0.1);
}

TEST(LongCompress, PowerSgd_OtherBackEndsAndSyncs_OneHashOverRanks) {
  for (const char* backend : {"tree", "gloo"}) {
    EXPECT_NE(HashOf(4, RunOf(backend, "powersgd:2"), kRanks), "") << backend;
  }
  const Options buckets = {"--bucket-cap-mb", "0.05"};
  const std::string expected = HashOf(2, RunOf("ring", "powersgd:2") + buckets, kRanks);
  const Options other = buckets + Options{"--sync", "gather-scatter"};
  EXPECT_EQ(HashOf(4, RunOf("coordinator", "powersgd:2") + other, kRanks), expected);
}

TEST(Compress, PowerSgd_WarmUp_SendsWholeGradientsAtFirst) {
  const double full = RunWorkers(4, RunOf("ring", "none")).ranks[0]["bytes_sent"];
  const double cold = RunWorkers(4, RunOf("ring", "powersgd:1")).ranks[0]["bytes_sent"];
  const LaunchResult run =
      RunWorkers(4, RunOf("ring", "powersgd:1") + Options{"--compress-warmup", "10"});
  EXPECT_EQ(run.ranks[0]["compress"], "powersgd:1");
  EXPECT_NEAR(run.ranks[0]["bytes_sent"].get<double>(), full / 4 + 3 * cold / 4, 0.01 * full);
  EXPECT_LT(cold, 0.1 * full);
}

TEST(Compress, TopK_WarmUp_SendsMoreAtFirst) {
  const Options options = RunOf("sharded", "top-k:0.01");
  const LaunchResult cold = RunWorkers(4, options);
  const LaunchResult warm = RunWorkers(4, options + Options{"--compress-warmup", "20"});
  EXPECT_GT(warm.ranks[0]["bytes_sent"].get<double>(),
            2 * cold.ranks[0]["bytes_sent"].get<double>());
}

}  // namespace
}  // namespace gradwire::testing::compress_test
