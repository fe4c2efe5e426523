#include "common/aggregation/aggregation_clock.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

absl::Time At(int64_t milliseconds) { return absl::FromUnixMillis(milliseconds); }

class AggregationClockTest : public ::testing::Test {
 protected:
  // The first step of a view ends no iteration that counts.
  AggregationClockTest() { EXPECT_FALSE(clock_.EndStep(LayoutId(0), At(100)).has_value()); }

  AggregationClock clock_{At(0)};
};

TEST(AggregationTimes, Sum_OfTwo_OfEachPart) {
  AggregationTimes sum = {absl::Seconds(1), absl::Seconds(2), absl::Seconds(3), absl::Seconds(4),
                          absl::Seconds(5)};
  const AggregationTimes more = {absl::Seconds(10), absl::Seconds(20), absl::Seconds(30),
                                 absl::Seconds(40), absl::Seconds(50)};
  sum += more;
  EXPECT_EQ(sum.fold, absl::Seconds(11));
  EXPECT_EQ(sum.receive, absl::Seconds(22));
  EXPECT_EQ(sum.send, absl::Seconds(33));
  EXPECT_EQ(sum.wait, absl::Seconds(44));
  EXPECT_EQ(sum.hidden_send, absl::Seconds(55));
  EXPECT_EQ(sum.iteration(), absl::Seconds(110));
}

TEST_F(AggregationClockTest, EndStep_NothingGoesOn_AllIsWaiting) {
  const auto times = clock_.EndStep(LayoutId(0), At(350));
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(times->wait, absl::Milliseconds(250));
  EXPECT_EQ(times->iteration(), absl::Milliseconds(250));
}

TEST_F(AggregationClockTest, EndStep_OneAfterTheOther_EachHasItsTime) {
  clock_.At(At(101)).receiving = 1;
  clock_.At(At(103)).receiving = 0;
  clock_.At(At(103)).folds = 1;
  clock_.At(At(107)).folds = 0;
  clock_.At(At(107)).sends = 1;
  clock_.At(At(115)).sends = 0;
  const auto times = clock_.EndStep(LayoutId(0), At(131));
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(times->receive, absl::Milliseconds(2));
  EXPECT_EQ(times->fold, absl::Milliseconds(4));
  EXPECT_EQ(times->send, absl::Milliseconds(8));
  EXPECT_EQ(times->wait, absl::Milliseconds(1 + 16));
  EXPECT_EQ(times->hidden_send, absl::ZeroDuration());
}

TEST_F(AggregationClockTest, EndStep_AtOnce_FoldThenReceiveThenSendCounts) {
  clock_.At(At(100)).sends = 2;
  clock_.At(At(101)).receiving = 1;
  clock_.At(At(103)).folds = 3;
  clock_.At(At(107)).folds = 0;
  clock_.At(At(115)).receiving = 0;
  const auto times = clock_.EndStep(LayoutId(0), At(131));
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(times->send, absl::Milliseconds(1 + 16));
  EXPECT_EQ(times->receive, absl::Milliseconds(2 + 8));
  EXPECT_EQ(times->fold, absl::Milliseconds(4));
  EXPECT_EQ(times->hidden_send, absl::Milliseconds(2 + 4 + 8));
  EXPECT_EQ(times->iteration(), absl::Milliseconds(31));
}

TEST_F(AggregationClockTest, EndStep_Next_CountsFromTheLastOn) {
  clock_.At(At(100)).sends = 1;
  clock_.EndStep(LayoutId(0), At(130));
  clock_.At(At(150)).sends = 0;
  const auto times = clock_.EndStep(LayoutId(0), At(160));
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(times->send, absl::Milliseconds(20));
  EXPECT_EQ(times->wait, absl::Milliseconds(10));
}

TEST_F(AggregationClockTest, Spoil_LeavesOutThatIterationAlone) {
  clock_.Spoil();
  EXPECT_FALSE(clock_.EndStep(LayoutId(0), At(200)).has_value());
  EXPECT_TRUE(clock_.EndStep(LayoutId(0), At(300)).has_value());
}

TEST_F(AggregationClockTest, EndStep_OfASecondLayout_LiesWithinTheIteration) {
  for (int64_t begin = 100; begin < 500; begin += 100) {
    EXPECT_FALSE(clock_.EndStep(LayoutId(1), At(begin + 60)).has_value());
    const auto times = clock_.EndStep(LayoutId(0), At(begin + 100));
    ASSERT_TRUE(times.has_value());
    EXPECT_EQ(times->iteration(), absl::Milliseconds(100));
  }
}

// As with --compress powersgd, whose first steps are of whole gradients.
TEST_F(AggregationClockTest, EndStep_FirstLayoutIsOver_TheOtherPacesFromThenOn) {
  EXPECT_FALSE(clock_.EndStep(LayoutId(1), At(200)).has_value());
  EXPECT_FALSE(clock_.EndStep(LayoutId(1), At(300)).has_value());
  const auto times = clock_.EndStep(LayoutId(1), At(370));
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(times->iteration(), absl::Milliseconds(70));
}

}  // namespace
}  // namespace gradwire
