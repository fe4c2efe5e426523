#include "coordinator/pages/loss_history.h"

#include <gmock/gmock.h>

namespace gradwire {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

LostWorker LossOf(int rank) {
  LostWorker loss;
  loss.ranks = {Rank(rank)};
  return loss;
}

LostTime Seconds(double computing, double connecting = 0) {
  return {absl::Seconds(computing), absl::ZeroDuration(), absl::Seconds(connecting)};
}

// Rank `adopted` is with rank 0 from now on.
Continuation With(int adopted, uint64_t generation = 2) {
  const Member carrier{Incarnation(1), "10.10.1.1:4711", {Rank(0), Rank(adopted)}};
  return {Generation(generation), Step(7), {{carrier, {Rank(adopted)}}}, std::nullopt};
}

TEST(LossHistory, None_NothingAndNoCost) {
  const LossHistory history;
  EXPECT_THAT(history.Losses(), IsEmpty());
  EXPECT_EQ(history.totals().losses, 0u);
  EXPECT_EQ(history.totals().lost.total(), absl::ZeroDuration());
}

TEST(LossHistory, Add_RunThatEnds_CostsNothing) {
  LossHistory history;
  history.Add(LossOf(2));
  ASSERT_THAT(history.Losses(), SizeIs(1));
  EXPECT_FALSE(history.Losses()[0].continued.has_value());
  EXPECT_EQ(history.totals().losses, 1u);
  EXPECT_EQ(history.totals().recovered_ranks, 0u);
  EXPECT_EQ(history.totals().lost.total(), absl::ZeroDuration());
}

TEST(LossHistory, AddCost_ManyWorkersTell_TheOneThatLostMostCounts) {
  LossHistory history;
  history.Add(LossOf(2));
  history.GoOn(With(2));
  EXPECT_FALSE(history.Losses()[0].continued->cost.has_value());
  EXPECT_EQ(history.AddCost(Generation(2), Seconds(3)), absl::Seconds(3));
  EXPECT_EQ(history.AddCost(Generation(2), Seconds(1)), absl::ZeroDuration());
  EXPECT_EQ(history.AddCost(Generation(2), Seconds(1, 4)), absl::Seconds(2));
  EXPECT_EQ(history.Losses()[0].continued->cost->computing, absl::Seconds(1));
  EXPECT_EQ(history.totals().lost.computing, absl::Seconds(1));
  EXPECT_EQ(history.totals().lost.total(), absl::Seconds(5));
}

TEST(LossHistory, AddCost_GrowsInEachPhase_TheSumIsThatOfTheLast) {
  LossHistory history;
  history.Add(LossOf(2));
  history.GoOn(With(2));
  for (const int64_t seconds : {1, 2, 5}) {
    history.AddCost(Generation(2), {absl::Seconds(seconds), absl::Seconds(2 * seconds),
                                    absl::Seconds(3 * seconds)});
  }
  EXPECT_EQ(history.totals().lost.computing, absl::Seconds(5));
  EXPECT_EQ(history.totals().lost.waiting, absl::Seconds(10));
  EXPECT_EQ(history.totals().lost.connecting, absl::Seconds(15));
}

TEST(LossHistory, AddCost_OfAViewThatNoLossLedTo_CostsNothing) {
  LossHistory history;
  history.Add(LossOf(2));
  EXPECT_EQ(history.AddCost(Generation(2), Seconds(3)), absl::ZeroDuration());
  history.GoOn(With(2));
  EXPECT_EQ(history.AddCost(Generation(3), Seconds(3)), absl::ZeroDuration());
  EXPECT_EQ(history.totals().lost.total(), absl::ZeroDuration());
}

TEST(LossHistory, GoOn_IsOfTheLastLossAndAddsUp) {
  LossHistory history;
  history.Add(LossOf(2));
  history.GoOn(With(2));
  history.Add(LossOf(1));
  history.GoOn(With(1, 3));
  EXPECT_EQ(history.Losses()[0].continued->generation, Generation(2));
  EXPECT_EQ(history.Losses()[1].continued->generation, Generation(3));
  EXPECT_EQ(history.totals().losses, 2u);
  EXPECT_EQ(history.totals().recovered_ranks, 2u);
  history.AddCost(Generation(3), Seconds(4));
  history.AddCost(Generation(2), Seconds(3));
  EXPECT_EQ(history.totals().lost.total(), absl::Seconds(7));
}

TEST(LossHistory, GoOn_RanksGoToTwoWorkers_AllOfThemCount) {
  LossHistory history;
  history.Add(LossOf(2));
  const Member first{Incarnation(1), "10.10.1.1:4711", {Rank(0), Rank(2), Rank(4)}};
  const Member second{Incarnation(2), "10.10.1.2:4711", {Rank(1), Rank(3)}};
  history.GoOn(
      {Generation(2), Step(7), {{first, {Rank(2), Rank(4)}}, {second, {Rank(3)}}}, std::nullopt});
  EXPECT_EQ(history.totals().recovered_ranks, 3u);
  EXPECT_EQ(history.totals().losses, 1u);
}

TEST(LossHistory, Add_ManyLosses_TheLastHundredAndAllInTheSums) {
  LossHistory history;
  for (int rank = 0; rank < 130; ++rank) history.Add(LossOf(rank));
  ASSERT_THAT(history.Losses(), SizeIs(100));
  EXPECT_EQ(history.Losses().front().ranks[0], Rank(30));
  EXPECT_EQ(history.totals().losses, 130u);
}

TEST(Describe, Adoptions_WhoIsWithWhom) {
  const Member first{Incarnation(1), "10.10.1.1:4711", {Rank(0), Rank(2), Rank(3)}};
  const Member second{Incarnation(2), "10.10.1.2:4711", {Rank(1), Rank(4)}};
  EXPECT_EQ(Describe({{first, {Rank(2), Rank(3)}}, {second, {Rank(4)}}}),
            "ranks 2, 3 are carried on with rank 0 at 10.10.1.1:4711; "
            "rank 4 is carried on with rank 1 at 10.10.1.2:4711");
}

}  // namespace
}  // namespace gradwire
