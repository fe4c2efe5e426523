#include "coordinator/pages/loss_history.h"

#include <gmock/gmock.h>

namespace gradwire {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

LostWorker LossOf(int rank, absl::Duration lost) {
  LostWorker loss;
  loss.ranks = {Rank(rank)};
  loss.lost = lost;
  return loss;
}

// Rank `adopted` is with rank 0 from now on.
Continuation With(int adopted, uint64_t generation = 2) {
  const Member carrier{Incarnation(1), "10.10.1.1:4711", {Rank(0), Rank(adopted)}};
  return {Generation(generation), Step(7), {{carrier, {Rank(adopted)}}}};
}

TEST(LossHistory, None_NothingAndNoCost) {
  const LossHistory history;
  EXPECT_THAT(history.Losses(), IsEmpty());
  EXPECT_EQ(history.totals().losses, 0u);
  EXPECT_EQ(history.totals().lost, absl::ZeroDuration());
}

TEST(LossHistory, Add_RunThatEnds_CostsNothing) {
  LossHistory history;
  history.Add(LossOf(2, absl::Seconds(3)));
  ASSERT_THAT(history.Losses(), SizeIs(1));
  EXPECT_FALSE(history.Losses()[0].continued.has_value());
  EXPECT_EQ(history.totals().losses, 1u);
  EXPECT_EQ(history.totals().recovered_ranks, 0u);
  EXPECT_EQ(history.totals().lost, absl::ZeroDuration());
}

TEST(LossHistory, GoOn_IsOfTheLastLossAndAddsUp) {
  LossHistory history;
  history.Add(LossOf(2, absl::Seconds(3)));
  history.GoOn(With(2));
  history.Add(LossOf(1, absl::Seconds(4)));
  history.GoOn(With(1, 3));
  EXPECT_EQ(history.Losses()[0].continued->generation, Generation(2));
  EXPECT_EQ(history.Losses()[1].continued->generation, Generation(3));
  EXPECT_EQ(history.totals().losses, 2u);
  EXPECT_EQ(history.totals().recovered_ranks, 2u);
  EXPECT_EQ(history.totals().lost, absl::Seconds(7));
}

TEST(LossHistory, Add_ManyLosses_TheLastHundredAndAllInTheSums) {
  LossHistory history;
  for (int rank = 0; rank < 130; ++rank) history.Add(LossOf(rank, absl::ZeroDuration()));
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
