#include <gtest/gtest.h>

#include "cli/plan/plan_command.h"

namespace gradwire {
namespace {

nlohmann::json RankSummary(double p50) {
  return {{"world_size", 2},
          {"sync", "all-reduce"},
          {"backend", "ring"},
          {"wire", "fp32"},
          {"compress", "none"},
          {"model", "vgg11"},
          {"batch_size", 8},
          {"iterations", 10},
          {"iteration_seconds", {{"p50", p50}}},
          {"phase_seconds",
           {{"exposed_communication", 0.5},
            {"forward", 0.125},
            {"backward", 0.25},
            {"optimizer", 0.125}}},
          {"bytes_sent", 1000}};
}

TEST(RunFromSummary, SeveralRanks_GivesMeans) {
  const auto run = RunFromSummary({{"ranks", {RankSummary(1), RankSummary(2)}}});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_DOUBLE_EQ(run->iteration_seconds, 1.5);
  EXPECT_DOUBLE_EQ(run->compute_seconds, 0.5);
  EXPECT_DOUBLE_EQ(run->bytes_sent_per_step, 100);
  EXPECT_EQ(run->workers, 2);
}

TEST(RunFromSummary, SeveralPasses_BatchIsThatOfAnIteration) {
  nlohmann::json summary = RankSummary(1);
  EXPECT_EQ(RunFromSummary(summary)->batch_size, 8);  // an older one
  summary["accumulate"] = 4;
  EXPECT_EQ(RunFromSummary(summary)->batch_size, 32);
  summary["accumulate"] = nullptr;
  EXPECT_EQ(RunFromSummary(summary).status().message(), "the summary lacks accumulate");
}

TEST(RunFromSummary, TrainedParameters_AreTakenIfTheSummaryHasThem) {
  nlohmann::json summary = RankSummary(1);
  EXPECT_EQ(RunFromSummary(summary)->trained_parameters, 0);  // it ended early
  summary["trained_parameters"] = 5130;
  EXPECT_EQ(RunFromSummary(summary)->trained_parameters, 5130);
}

TEST(RunFromSummary, FieldMissing_IsNamed) {
  nlohmann::json summary = RankSummary(1);
  summary.erase("backend");
  EXPECT_EQ(RunFromSummary(summary).status().message(), "the summary lacks backend");
  EXPECT_EQ(RunFromSummary({{"ranks", nlohmann::json::array()}}).status().message(),
            "the summary has no ranks");
}

TEST(RunFromSummary, RanksThatDiffer_EachTimeIsTheMean) {
  nlohmann::json other = RankSummary(1);
  other["phase_seconds"]["exposed_communication"] = 1.5;
  other["phase_seconds"]["forward"] = 1.125;
  other["bytes_sent"] = 3000;
  const auto run = RunFromSummary({{"ranks", {RankSummary(1), other}}});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_DOUBLE_EQ(run->exposed_seconds, 1);
  EXPECT_DOUBLE_EQ(run->compute_seconds, 1);
  EXPECT_DOUBLE_EQ(run->bytes_sent_per_step, 200);
}

}  // namespace
}  // namespace gradwire
