#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "coordinator/membership/roster.h"

namespace gradwire {
namespace {

v1::StepDone Done(int rank, uint64_t step, double loss = 0) {
  v1::StepDone done;
  done.set_rank(rank);
  done.set_step(step);
  done.set_loss(loss);
  return done;
}

TEST(StepTally, Nothing_FirstOpenIsZero) {
  const StepTally tally(3);
  EXPECT_EQ(tally.FirstOpen(), Step(0));
  EXPECT_EQ(tally.FirstOpen({Rank(1)}), Step(0));
  EXPECT_EQ(tally.Of(Rank(2)).rank(), 2);
  EXPECT_FALSE(tally.Of(Rank(2)).has_last_step());
}

TEST(StepTally, RanksApart_FirstOpenIsTheSlowests) {
  StepTally tally(3);
  tally.Take(Done(0, 4));
  tally.Take(Done(1, 2));
  tally.Take(Done(2, 9));
  EXPECT_EQ(tally.FirstOpen(), Step(3));
  EXPECT_EQ(tally.FirstOpen({Rank(0), Rank(2)}), Step(5));
  EXPECT_EQ(tally.FirstOpen({Rank(2)}), Step(10));
}

TEST(StepTally, OneRankSilent_NothingIsDoneByAll) {
  StepTally tally(2);
  tally.Take(Done(0, 100));
  EXPECT_EQ(tally.FirstOpen(), Step(0));
}

// After a loss others compute steps again that the lost one had told of.
TEST(StepTally, StepToldAgain_DoesNotGoBack) {
  StepTally tally(1);
  tally.Take(Done(0, 7, 1.5));
  tally.Take(Done(0, 5, 2.5));
  EXPECT_EQ(tally.Of(Rank(0)).steps_done(), 8);
  EXPECT_EQ(tally.Of(Rank(0)).last_step().loss(), 2.5);
}

TEST(StepTally, LastPossibleStep_DoesNotBeginAnew) {
  StepTally tally(1);
  tally.Take(Done(0, 7));
  tally.Take(Done(0, std::numeric_limits<uint64_t>::max()));
  EXPECT_GE(tally.FirstOpen(), Step(8));
}

Participant Worker(uint64_t incarnation, std::vector<Rank> ranks, absl::Time heard) {
  Participant worker;
  worker.session = SessionId(incarnation);
  worker.incarnation = Incarnation(incarnation);
  worker.address = "a:1";
  worker.metrics = "a:2";
  worker.last_heard = heard;
  worker.wish = ranks;
  worker.ranks = std::move(ranks);
  return worker;
}

TEST(RankStatuses, WorkersWithSeveralRanks_AreALineForEachInOrder) {
  const absl::Time now = absl::UnixEpoch() + absl::Seconds(100);
  Roster roster({3, 2, 0}, LeaseLimits(), now);
  roster.Add(Worker(1, {Rank(0), Rank(2)}, now - absl::Seconds(4)));
  roster.Add(Worker(2, {Rank(1)}, now));
  StepTally steps(3);
  steps.Take(Done(2, 6));
  roster.Find(Incarnation(2))->standing = Standing::kLost;
  const std::vector<v1::RankStatus> statuses = RankStatuses(roster, steps, now);
  ASSERT_EQ(statuses.size(), 3);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(statuses[rank].rank(), rank);
  EXPECT_EQ(statuses[2].steps_done(), 7);
  EXPECT_EQ(statuses[2].silent_seconds(), 4);
  EXPECT_EQ(statuses[0].state(), "running");
  EXPECT_EQ(statuses[1].state(), "silent");
  roster.Find(Incarnation(2))->session.reset();
  EXPECT_EQ(RankStatuses(roster, steps, now)[1].state(), "lost");
  EXPECT_EQ(statuses[0].metrics(), "a:2");
}

TEST(RankStatuses, WithoutTimeOrSession_SilenceIsNotTold) {
  const absl::Time now = absl::UnixEpoch() + absl::Seconds(100);
  Roster roster({1, 1, 0}, LeaseLimits(), now);
  roster.Add(Worker(1, {Rank(0)}, now - absl::Seconds(4)));
  const StepTally steps(1);
  EXPECT_FALSE(RankStatuses(roster, steps, std::nullopt)[0].has_silent_seconds());
  roster.Find(Incarnation(1))->session.reset();
  EXPECT_FALSE(RankStatuses(roster, steps, now)[0].has_silent_seconds());
}

TEST(RankStatuses, NobodyThere_IsNone) {
  const Roster roster({2, 2, 0}, LeaseLimits(), absl::UnixEpoch());
  EXPECT_TRUE(RankStatuses(roster, StepTally(2), std::nullopt).empty());
}

}  // namespace
}  // namespace gradwire
