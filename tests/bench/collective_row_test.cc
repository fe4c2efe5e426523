#include "bench/collective_row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradwire {
namespace {

using ::testing::HasSubstr;

nlohmann::json Rank(std::vector<double> seconds, uint64_t sent) {
  return {{"seconds", std::move(seconds)}, {"cpu_seconds", 1.0}, {"bytes_sent", sent},
          {"bytes_received", sent},        {"checked", 10},      {"wrong", 1},
          {"iterations_in_all", 6}};
}

// Two ranks, three iterations of 10^9 bytes each.
CollectiveRun TwoRanks(const std::string& backend) {
  CollectiveRun run;
  run.backend = backend;
  run.wire = "fp32";
  run.bytes = 1000000000;
  run.ranks = {Rank({1, 2, 3}, 2000000000), Rank({4, 1, 2}, 2000000000)};
  return run;
}

TEST(MakeCollectiveRow, TwoRanks_TakesTheLongestOfEachIteration) {
  const auto row = *MakeCollectiveRow(TwoRanks("ring"));  // 4, 2, 3 s
  EXPECT_DOUBLE_EQ(row["min_us"], 2e6);
  EXPECT_DOUBLE_EQ(row["p50_us"], 3e6);
  EXPECT_NEAR(row["p99_us"].get<double>(), 3.98e6, 1);
  EXPECT_EQ(row["iterations"], 3);
}

TEST(MakeCollectiveRow, TwoRanks_GivesBandwidths) {
  const auto row = *MakeCollectiveRow(TwoRanks("ring"));
  EXPECT_DOUBLE_EQ(row["algbw_gb_per_s"], 1.0 / 3);
  EXPECT_DOUBLE_EQ(row["busbw_gb_per_s"], 1.0 / 3);  // 2(W-1)/W is 1
  EXPECT_EQ(row["count"], 250000000);
}

TEST(MakeCollectiveRow, WrongValues_AreThoseOfAllRanks) {
  EXPECT_EQ((*MakeCollectiveRow(TwoRanks("ring")))["wrong"], 2);
}

TEST(MakeCollectiveRow, Ring_CpuIsForWhatRanksSent) {
  EXPECT_DOUBLE_EQ((*MakeCollectiveRow(TwoRanks("ring")))["cpu_seconds_per_gb"], 2.0 / 4);
}

TEST(MakeCollectiveRow, Coordinator_CpuIsWithItsPartOfTheMeasuredIterations) {
  CollectiveRun run = TwoRanks("coordinator");
  run.coordinator_cpu_seconds = 4;  // for 6 iterations, of which 3 count
  EXPECT_DOUBLE_EQ((*MakeCollectiveRow(run))["cpu_seconds_per_gb"], (2.0 + 2.0) / 8);
}

TEST(MakeCollectiveRow, CoordinatorElsewhere_CpuIsUnknown) {
  EXPECT_TRUE((*MakeCollectiveRow(TwoRanks("coordinator")))["cpu_seconds_per_gb"].is_null());
}

TEST(MakeCollectiveRow, NoLink_HasNoBound) {
  EXPECT_TRUE((*MakeCollectiveRow(TwoRanks("ring")))["bound_percent"].is_null());
}

TEST(MakeCollectiveRow, Link_GivesPartOfTheBound) {
  CollectiveRun run = TwoRanks("ring");
  run.link_gbit = 8.0 * 1514 / 1448;  // 10^9 bytes of payload a second
  EXPECT_NEAR((*MakeCollectiveRow(run))["bound_percent"].get<double>(), 100.0 / 3, 1e-9);
  run.wire = "bf16";
  EXPECT_NEAR((*MakeCollectiveRow(run))["bound_percent"].get<double>(), 50.0 / 3, 1e-9);
}

TEST(MakeCollectiveRow, NoReport_NamesTheRank) {
  CollectiveRun run = TwoRanks("ring");
  run.ranks[1] = nlohmann::json::value_t::discarded;
  EXPECT_EQ(MakeCollectiveRow(run).status().message(), "rank 1 printed no report");
}

TEST(MakeCollectiveRow, UnequalIterations_AreRefused) {
  CollectiveRun run = TwoRanks("ring");
  run.ranks[1] = Rank({1}, 5);
  EXPECT_THAT(std::string(MakeCollectiveRow(run).status().message()),
              HasSubstr("rank 1 measured 1 iterations, rank 0 3"));
}

}  // namespace
}  // namespace gradwire
