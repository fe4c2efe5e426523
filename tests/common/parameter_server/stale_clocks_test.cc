#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "common/parameter_server/parameter_piece.h"

namespace gradwire {
namespace {

StalenessBound Bound(absl::optional<uint64_t> staleness, uint64_t steps = 1000,
                     uint64_t meet_every = 0) {
  return {staleness, steps, meet_every};
}

TEST(StaleClocks, MayBegin_Bound_StepsAheadOfTheSlowest) {
  StaleClocks clocks(2, Bound(2));
  EXPECT_TRUE(clocks.MayBegin(2));
  EXPECT_FALSE(clocks.MayBegin(3));
  clocks.Advance(Rank(1));
  EXPECT_FALSE(clocks.MayBegin(3));
  clocks.Advance(Rank(0));
  EXPECT_TRUE(clocks.MayBegin(3));
  EXPECT_FALSE(clocks.MayBegin(4));
}

TEST(StaleClocks, MayBegin_NoStaleness_AllInOneStep) {
  StaleClocks clocks(2, Bound(0));
  EXPECT_TRUE(clocks.MayBegin(0));
  clocks.Advance(Rank(0));
  EXPECT_FALSE(clocks.MayBegin(1));
  clocks.Advance(Rank(1));
  EXPECT_TRUE(clocks.MayBegin(1));
}

TEST(StaleClocks, MayBegin_NoBound_AnyStepButTheEnd) {
  const StaleClocks clocks(2, Bound(absl::nullopt, 50));
  EXPECT_TRUE(clocks.MayBegin(49));
  EXPECT_FALSE(clocks.MayBegin(50));
}

TEST(StaleClocks, MayBegin_StepWhereAllMeet_NeedsAll) {
  StaleClocks clocks(2, Bound(5, 100, 4));
  EXPECT_TRUE(clocks.MayBegin(3));
  EXPECT_FALSE(clocks.MayBegin(4));
  EXPECT_TRUE(clocks.MayBegin(5));
}

// Rank 0 needs two units of time for a step, rank 1 one. From then on rank 1 begins each step just
// when rank 0 has done the one S before it, and no earlier step waits.
TEST(StaleClocks, RankOfHalfTheSpeed_OtherIsHeldUpAtTheBoundAlone) {
  constexpr uint64_t kStaleness = 3, kSteps = 20;
  StaleClocks clocks(2, Bound(kStaleness));
  uint64_t now = 0, free_at = 0, waited = 0;
  while (clocks.clock(Rank(1)) < kSteps) {
    if (now > 0 && now % 2 == 0) clocks.Advance(Rank(0));
    const uint64_t step = clocks.clock(Rank(1));
    if (clocks.MayBegin(step)) {
      const uint64_t slow_is_there = step > kStaleness ? 2 * (step - kStaleness) : 0;
      EXPECT_EQ(now, std::max(free_at, slow_is_there)) << "step " << step;
      clocks.Advance(Rank(1));
      free_at = now + 1;
    } else {
      ++waited;
    }
    ++now;
  }
  EXPECT_EQ(waited, kSteps - 1 - 2 * kStaleness);
}

// Ranks take their turns in any order, each when it may.
RC_GTEST_PROP(StaleClocks, AnySchedule_NobodyLeadsBeyondTheBoundOrWaitsWithinIt, ()) {
  const int ranks = *rc::gen::inRange(1, 7);
  const uint64_t staleness = *rc::gen::inRange<uint64_t>(0, 6);
  const bool bounded = *rc::gen::arbitrary<bool>();
  const uint64_t steps = *rc::gen::inRange<uint64_t>(1, 30);
  const uint64_t meet_every = *rc::gen::inRange<uint64_t>(0, 7);
  StaleClocks clocks(ranks, Bound(bounded ? absl::optional<uint64_t>(staleness) : absl::nullopt,
                                  steps, meet_every));
  while (clocks.slowest() < steps) {
    std::vector<int> free;
    for (int rank = 0; rank < ranks; ++rank) {
      const uint64_t step = clocks.clock(Rank(rank));
      const uint64_t lead = step - clocks.slowest();
      const bool meets = step == steps || (meet_every > 0 && step % meet_every == 0);
      const bool may = meets ? lead == 0 : !bounded || lead <= staleness;
      RC_ASSERT(clocks.MayBegin(step) == may);
      if (may && step < steps) free.push_back(rank);
    }
    RC_ASSERT(!free.empty());  // the slowest at least
    clocks.Advance(Rank(*rc::gen::elementOf(free)));
    if (bounded) RC_ASSERT(clocks.fastest() - clocks.slowest() <= staleness + 1);
  }
  RC_ASSERT(clocks.fastest() == steps);
}

TEST(BoundOf, Serving_HasItsNumbers) {
  v1::Serving serving;
  EXPECT_FALSE(BoundOf(serving).staleness.has_value());
  serving.set_staleness(0);
  serving.set_steps(50);
  serving.set_meet_every(8);
  const StalenessBound bound = BoundOf(serving);
  EXPECT_EQ(bound.staleness, 0u);
  EXPECT_EQ(bound.steps, 50u);
  EXPECT_EQ(bound.meet_every, 8u);
}

}  // namespace
}  // namespace gradwire
