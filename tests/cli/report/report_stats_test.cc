#include "cli/report/report_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/cli/launch/log_lines.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;
using testing::LogLine;
using testing::MakeLog;
using ::testing::StartsWith;

LoggedRun TwoRanks(int steps = 3) {
  return MakeRun("ddp-2", {MakeLog("a", 0, steps, 0.4), MakeLog("b", 1, steps, 0.6)}).value();
}

RankLog LogOf(const std::string& text) { return ParseRankLog("a", text).value(); }

TEST(DescribeRun, TwoRanks_HaveTheirMeans) {
  const RunStats run = Describe(TwoRanks());
  EXPECT_EQ(run.name, "ddp-2");
  EXPECT_EQ(run.setup, "ddp");
  EXPECT_EQ(run.ranks, 2);
  EXPECT_EQ(run.steps, 3u);
  EXPECT_DOUBLE_EQ(run.iteration.mean, 0.5);
  EXPECT_DOUBLE_EQ(run.phases.exposed_communication, 0.05);
  EXPECT_DOUBLE_EQ(run.bytes_sent, 1000000);
  EXPECT_DOUBLE_EQ(run.first_loss, 2);
  EXPECT_DOUBLE_EQ(run.last_loss, 1.8);
}

TEST(DescribeRun, SamplesPerSecond_AreOfAllRanksTogether) {
  EXPECT_NEAR(Describe(TwoRanks()).samples_per_second, 8 / 0.4 + 8 / 0.6, 1e-6);
}

TEST(DescribeRun, FirstIteration_CountsInNoTime) {
  const LoggedRun run =
      MakeRun("r", {LogOf(LogLine(0, 0, 9) + LogLine(0, 1, 1) + LogLine(0, 2, 1))}).value();
  EXPECT_DOUBLE_EQ(Describe(run).iteration.mean, 1);
}

TEST(DescribeRun, OneIteration_HasNoTimesAndALoss) {
  const RunStats run = Describe(MakeRun("r", {MakeLog("a", 0, 1)}).value());
  EXPECT_TRUE(std::isnan(run.iteration.mean));
  EXPECT_TRUE(std::isnan(run.samples_per_second));
  EXPECT_DOUBLE_EQ(run.last_loss, 2);
  EXPECT_THAT(run.bottleneck, StartsWith("Bottleneck: not known"));
}

TEST(DescribeRun, RankWithLongerWork_IsTheBottleneck) {
  EXPECT_THAT(Describe(TwoRanks()).bottleneck, StartsWith("Bottleneck: rank 1"));
}

TEST(DescribeRun, Steps_NameTheSlowestRankAndSumBytes) {
  const RunStats run = Describe(TwoRanks());
  ASSERT_EQ(run.by_step.size(), 3u);
  EXPECT_EQ(run.by_step[1].ranks, 2);
  EXPECT_EQ(run.by_step[1].slowest_rank, 1);
  EXPECT_DOUBLE_EQ(run.by_step[1].longest, 0.6);
  EXPECT_EQ(run.by_step[1].samples, 16);
  EXPECT_DOUBLE_EQ(run.by_step[1].bytes_received, 4000000);
}

TEST(DescribeRun, LossNotFinite_IsLeftOutOfTheMean) {
  const LoggedRun run =
      MakeRun("r", {LogOf(LogLine(0, 0, 0.5, std::nan(""))), LogOf(LogLine(1, 0, 0.5, 3))}).value();
  EXPECT_DOUBLE_EQ(Describe(run).by_step[0].loss, 3);
}

TEST(DescribeRun, RankThatEndsEarly_IsNotInLaterSteps) {
  const LoggedRun run = MakeRun("r", {MakeLog("a", 0, 4), MakeLog("b", 1, 2)}).value();
  EXPECT_EQ(Describe(run).by_step[3].ranks, 1);
}

TEST(OtherSeconds, Rest_IsWhatNoPhaseTakes) {
  RunStats run;
  run.iteration.mean = 1;
  run.phases.forward = 0.3;
  run.phases.backward = 0.5;
  EXPECT_NEAR(OtherSeconds(run), 0.2, 1e-12);
}

TEST(OtherSeconds, PhasesLongerThanIteration_LeaveNone) {
  RunStats run;
  run.iteration.mean = 1;
  run.phases.forward = 2;
  EXPECT_EQ(OtherSeconds(run), 0);
}

TEST(RunsCsv, Run_IsALineInItsUnits) {
  EXPECT_EQ(
      RunsCsv({Describe(MakeRun("a,b", {MakeLog("a", 0, 3)}).value())}),
      "run,setup,ranks,steps,iteration_seconds_p50,iteration_seconds_p90,"
      "iteration_seconds_mean,data_seconds,forward_seconds,backward_seconds,"
      "communication_seconds,exposed_communication_seconds,optimizer_seconds,exposed_share,"
      "samples_per_second,bytes_sent_per_rank_and_step,first_loss,last_loss\n"
      "\"a,b\",\"a,b\",1,3,0.5,0.5,0.5,0.0,0.1,0.35,0.2,0.05,0.0,0.1,16.0,1000000.0,2.0,1.8\n");
}

TEST(RunsCsv, NotMeasured_IsEmpty) {
  EXPECT_THAT(RunsCsv({Describe(MakeRun("r", {MakeLog("a", 0, 1)}).value())}),
              HasSubstr("\nr,r,1,1,,,,,,,,,,,,1000000.0,2.0,2.0\n"));
}

TEST(StepsCsv, EachStepOfEachRun_IsALine) {
  const std::string csv = StepsCsv({Describe(TwoRanks(2)), Describe(TwoRanks(1))});
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 2 + 1);
  EXPECT_THAT(csv, StartsWith("run,step,epoch,ranks,loss,samples,iteration_seconds,"));
  EXPECT_THAT(csv, HasSubstr("\nddp-2,1,0,2,1.9,16,0.5,0.6,1,"));
}

}  // namespace
}  // namespace gradwire
