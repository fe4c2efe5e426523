#include "coordinator/pages/run_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>

namespace gradwire {
namespace {

using ::testing::SizeIs;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

StepRecord Done(uint64_t step, double iteration, double exposed, double loss = 2) {
  StepRecord record;
  record.step = Step(step);
  record.loss = loss;
  record.iteration = absl::Seconds(iteration);
  record.phases[Phase::kExposedCommunication] = absl::Seconds(exposed);
  record.samples = 10;
  record.bytes_sent = 100;
  return record;
}

class RunHistoryTest : public ::testing::Test {
 protected:
  RunHistoryTest() { history_.Begin(2, now_); }
  // Both ranks do the step.
  void Both(const StepRecord& first, const StepRecord& second) {
    Add(0, first);
    Add(1, second);
  }
  std::optional<RunHistory::StepOfRanks> Add(int rank, StepRecord record) {
    record.rank = Rank(rank);
    return history_.Add(record, 50, now_);
  }

  absl::Time now_ = absl::FromUnixSeconds(1000);
  RunHistory history_;
};

TEST_F(RunHistoryTest, Add_OneOfTwoRanks_NoPointYet) {
  EXPECT_FALSE(Add(1, Done(0, 1, 0)).has_value());
  EXPECT_THAT(history_.Points(10), SizeIs(0));
}

TEST_F(RunHistoryTest, Add_LastRank_GivesWhatAllToldByRank) {
  Add(1, Done(0, 1, 0));
  const auto step = Add(0, Done(0, 3, 0));
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ((*step)[0].iteration, absl::Seconds(3));
  EXPECT_EQ((*step)[1].iteration, absl::Seconds(1));
}

// As of a program on the library that does not call report_loss.
TEST_F(RunHistoryTest, Add_LossIsNotTold_IsNoEvent) {
  StepRecord record = Done(0, 1, 0, kNan);
  record.loss_told = false;
  Both(record, record);
  EXPECT_THAT(history_.Events(), SizeIs(0));
  EXPECT_FALSE(history_.Points(10)[0].loss.has_value());
}

TEST_F(RunHistoryTest, Points_OneStep_MeansAndSumsOfTheRanks) {
  Both(Done(4, 1, 0.5, 2), Done(4, 3, 1.5, 4));
  const std::vector<HistoryPoint> points = history_.Points(10);
  ASSERT_THAT(points, SizeIs(1));
  EXPECT_EQ(points[0].first, Step(4));
  EXPECT_EQ(points[0].steps, 1u);
  EXPECT_EQ(points[0].iteration, absl::Seconds(2));
  EXPECT_EQ(points[0].phases[Phase::kExposedCommunication], absl::Seconds(1));
  EXPECT_EQ(points[0].longest, absl::Seconds(3));
  EXPECT_EQ(points[0].loss, 3);
  EXPECT_EQ(points[0].samples_per_second(), 10);
  EXPECT_EQ(points[0].bytes_sent, 200);
}

TEST_F(RunHistoryTest, Points_LossOfOneRankNotFinite_None) {
  Both(Done(0, 1, 0, kNan), Done(0, 1, 0, 4));
  Both(Done(1, 1, 0, 2), Done(1, 1, 0, 4));
  EXPECT_EQ(history_.Points(10)[0].loss, std::nullopt);
  EXPECT_EQ(history_.Points(10)[1].loss, 3);
}

TEST_F(RunHistoryTest, Points_LossOfOneRankNotTold_IsThatOfTheOther) {
  StepRecord silent = Done(0, 1, 0, kNan);
  silent.loss_told = false;
  Both(silent, Done(0, 1, 0, 4));
  EXPECT_EQ(history_.Points(10)[0].loss, 4);
}

TEST_F(RunHistoryTest, Events_LossNotFinite_OnceForEachRank) {
  for (uint64_t step = 0; step < 3; ++step) Both(Done(step, 1, 0, kNan), Done(step, 1, 0, 4));
  const std::vector<RunEvent> events = history_.Events();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].kind, "not-finite");
  EXPECT_EQ(events[0].text, "the loss of rank 0 is nan");
}

TEST_F(RunHistoryTest, Events_LossesOfBothRanksNotFinite_OneEventForEach) {
  for (uint64_t step = 0; step < 2; ++step) Both(Done(step, 1, 0, kNan), Done(step, 1, 0, kNan));
  const std::vector<RunEvent> events = history_.Events();
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_EQ(events[0].text, "the loss of rank 0 is nan");
  EXPECT_EQ(events[1].text, "the loss of rank 1 is nan");
}

// The worker of the other rank was lost before it told of the step.
TEST_F(RunHistoryTest, Add_EarlierStepThatOneRankNeverTold_IsForgottenWithALaterOne) {
  Add(0, Done(0, 1, 0));
  Both(Done(1, 1, 0), Done(1, 1, 0));
  EXPECT_FALSE(Add(1, Done(0, 1, 0)).has_value());
  ASSERT_THAT(history_.Points(10), SizeIs(1));
  EXPECT_EQ(history_.Points(10)[0].first, Step(1));
}

TEST_F(RunHistoryTest, Add_StepsThatOneRankInvents_AreForgottenBeyondABound) {
  for (uint64_t step = 0; step < 5000; ++step) Add(0, Done(step, 1, 0));
  uint64_t complete = 0;
  for (uint64_t step = 0; step < 5000; ++step) complete += Add(1, Done(step, 1, 0)) ? 1 : 0;
  EXPECT_EQ(complete, 4096u);
  EXPECT_FALSE(Add(0, Done(5000, 1, 0)).has_value());
  EXPECT_TRUE(Add(1, Done(5000, 1, 0)).has_value());
}

TEST_F(RunHistoryTest, Points_FewWanted_EveryStepInOneOfThem) {
  for (uint64_t step = 0; step < 10; ++step) {
    Both(Done(step, static_cast<double>(step), 0), Done(step, static_cast<double>(step), 0));
  }
  const std::vector<HistoryPoint> points = history_.Points(4);
  ASSERT_THAT(points, SizeIs(4));
  EXPECT_EQ(points[0].steps, 3u);
  EXPECT_EQ(points[0].iteration, absl::Seconds(1));
  EXPECT_EQ(points[3].first, Step(9));
  EXPECT_EQ(points[3].steps, 1u);
  EXPECT_THAT(history_.Points(5), SizeIs(5));
}

// Each step counts alike, whatever is put together first.
TEST_F(RunHistoryTest, Points_ThreeStepsInOne_MeansAndTheLongest) {
  StepRecord first = Done(0, 5, 0.9, 1);
  first.bytes_sent = 700;
  first.samples = 40;
  Both(first, Done(0, 7, 0.9, 3));
  Both(Done(1, 1, 0.3, 5), Done(1, 1, 0.3, 5));
  Both(Done(2, 2, 0, 8), Done(2, 2, 0, 8));
  const std::vector<HistoryPoint> points = history_.Points(1);
  ASSERT_THAT(points, SizeIs(1));
  EXPECT_EQ(points[0].first, Step(0));
  EXPECT_EQ(points[0].steps, 3u);
  EXPECT_DOUBLE_EQ(absl::ToDoubleSeconds(points[0].iteration), 3);
  EXPECT_EQ(points[0].longest, absl::Seconds(7));
  EXPECT_NEAR(absl::ToDoubleSeconds(points[0].phases[Phase::kExposedCommunication]), 0.4, 1e-9);
  EXPECT_DOUBLE_EQ(points[0].loss.value(), 5);
  EXPECT_DOUBLE_EQ(points[0].bytes_sent, (800 + 200 + 200) / 3.0);
  // 50 samples in 6 seconds, 20 in 1 second and 20 in 2.
  EXPECT_NEAR(points[0].samples_per_second(), 90 / 9.0, 1e-9);
}

TEST_F(RunHistoryTest, Points_LongestIsInTheLaterStep_ItIsKept) {
  Both(Done(0, 1, 0), Done(0, 2, 0));
  Both(Done(1, 9, 0), Done(1, 1, 0));
  EXPECT_EQ(history_.Points(1)[0].longest, absl::Seconds(9));
}

TEST_F(RunHistoryTest, Points_OneOfTheStepsHasNoLoss_ThatOfTheOthers) {
  Both(Done(0, 1, 0, kNan), Done(0, 1, 0, kNan));
  Both(Done(1, 1, 0, 6), Done(1, 1, 0, 6));
  Both(Done(2, 1, 0, kNan), Done(2, 1, 0, kNan));
  EXPECT_EQ(history_.Points(1)[0].loss, 6);
}

TEST_F(RunHistoryTest, Points_LongRun_PointsKeepTheLongestAndTheLossOfTheirSteps) {
  for (uint64_t step = 0; step < 4098; ++step) {
    const double of_step = step == 1 ? 5 : 1;
    Both(Done(step, of_step, 0, 2 * of_step), Done(step, 1, 0, 2));
  }
  const std::vector<HistoryPoint> points = history_.Points(1 << 20);
  EXPECT_EQ(points[0].steps, 2u);
  EXPECT_EQ(points[0].longest, absl::Seconds(5));
  EXPECT_EQ(points[0].loss, (2 + 6) / 2.0);
  EXPECT_EQ(points[1].longest, absl::Seconds(1));
}

TEST_F(RunHistoryTest, Begin_AStepWasHalfTold_ItIsForgotten) {
  Add(0, Done(0, 1, 0));
  history_.Begin(2, now_);
  EXPECT_FALSE(Add(1, Done(0, 1, 0)).has_value());
}

TEST_F(RunHistoryTest, Points_LongRun_BoundedAndNoStepLost) {
  for (uint64_t step = 0; step < 10001; ++step) Both(Done(step, 1, 0), Done(step, 1, 0));
  const std::vector<HistoryPoint> points = history_.Points(1 << 20);
  EXPECT_LE(points.size(), 4096u);
  uint64_t next = 0;
  for (const HistoryPoint& point : points) {
    ASSERT_EQ(point.first, Step(next));
    next += point.steps;
  }
  EXPECT_EQ(next, 10001u);
}

TEST_F(RunHistoryTest, Points_LongRun_AllButTheLastCoverAsManySteps) {
  for (uint64_t step = 0; step < 10001; ++step) Both(Done(step, 1, 0), Done(step, 1, 0));
  const std::vector<HistoryPoint> points = history_.Points(1 << 20);
  ASSERT_THAT(points, SizeIs(2501));
  for (size_t i = 0; i < 2500; ++i) ASSERT_EQ(points[i].steps, 4u) << i;
  EXPECT_EQ(points.back().steps, 1u);
}

TEST_F(RunHistoryTest, Slowest_RankThatTheOthersWaitFor_IsIt) {
  Both(Done(0, 2, 1.5), Done(0, 2, 0.1));
  EXPECT_EQ(history_.Slowest(), Rank(1));
}

TEST_F(RunHistoryTest, Slowest_OneLongStepAmongTwenty_None) {
  for (uint64_t step = 0; step < 20; ++step) {
    Both(Done(step, step == 7 ? 9 : 2, 0), Done(step, step % 2 == 0 ? 2 : 1.9, 0));
  }
  EXPECT_EQ(history_.Slowest(), std::nullopt);
}

TEST_F(RunHistoryTest, Slowest_EveryFourthStepIsLong_IsIt) {
  for (uint64_t step = 0; step < 20; ++step) {
    Both(Done(step, step % 4 == 0 ? 9 : 2, 0), Done(step, 2, 0));
  }
  EXPECT_EQ(history_.Slowest(), Rank(0));
}

TEST_F(RunHistoryTest, Slowest_OfFourRanks_ComparedWithTheMeanOfTheOthers) {
  history_.Begin(4, now_);
  const double seconds[] = {2, 2.5, 3, 2};
  for (uint64_t step = 0; step < 20; ++step) {
    for (int rank = 0; rank < 4; ++rank) {
      Add(rank, Done(step, seconds[rank] + (step % 2 == 0 ? 0.1 : 0), 0));
    }
  }
  EXPECT_EQ(history_.Slowest(), Rank(2));
}

// The mean of three ranks varies less than each of them.
TEST_F(RunHistoryTest, Slowest_OthersVaryButTheirMeanDoesNot_IsIt) {
  history_.Begin(4, now_);
  for (uint64_t step = 0; step < 20; ++step) {
    for (int rank : {0, 1, 2}) Add(rank, Done(step, step % 2 == 0 ? 2 : 4, 0));
    Add(3, Done(step, 3.35, 0));
  }
  EXPECT_EQ(history_.Slowest(), Rank(3));
}

// Ranks 1 and 2 have the times of their worker.
TEST_F(RunHistoryTest, Slowest_RanksOfOneWorker_AreNotCompared) {
  history_.Begin(3, now_);
  for (uint64_t step = 0; step < 20; ++step) {
    const double noise = step % 2 == 0 ? 0.1 : -0.1;
    for (int rank : {0, 1, 2}) Add(rank, Done(step, (rank == 0 ? 2 : 2.09) + noise, 0));
  }
  EXPECT_EQ(history_.Slowest(), std::nullopt);
  const std::map<Rank, std::string> workers = {{Rank(0), "a"}, {Rank(1), "b"}, {Rank(2), "b"}};
  EXPECT_EQ(history_.Slowest(workers), Rank(1));
}

TEST_F(RunHistoryTest, Slowest_OneRank_None) {
  Add(0, Done(0, 1, 0));
  EXPECT_EQ(history_.Slowest(), std::nullopt);
}

TEST_F(RunHistoryTest, ProgressOf_ManySteps_WorkOfTheLastTwenty) {
  for (uint64_t step = 0; step < 30; ++step) {
    Add(0, Done(step, step < 11 ? 9 : 2, 1));
  }
  EXPECT_EQ(history_.ProgressOf(Rank(0))->work, absl::Seconds(8 + 19 * 1) / 20);
  EXPECT_EQ(history_.ProgressOf(Rank(0))->last.step, Step(29));
  EXPECT_EQ(history_.ProgressOf(Rank(1)), std::nullopt);
}

TEST_F(RunHistoryTest, Events_Many_LastHundred) {
  for (uint64_t i = 0; i < 120; ++i) history_.AddEvent({now_, Step(i), "lost", "rank 1"});
  const std::vector<RunEvent> events = history_.Events();
  ASSERT_THAT(events, SizeIs(100));
  EXPECT_EQ(events.front().step, Step(20));
  EXPECT_EQ(events.back().step, Step(119));
}

}  // namespace
}  // namespace gradwire
