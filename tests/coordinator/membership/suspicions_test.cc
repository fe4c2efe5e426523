#include "coordinator/membership/suspicions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const absl::Time kStart = absl::FromUnixSeconds(1000);

// Worker 1 joined first, worker 20 last.
class SuspicionsTest : public ::testing::Test {
 protected:
  void Say(int by, int suspect, bool broke_off = false, double at = 0) {
    suspicions_.Add({Incarnation(by), Incarnation(suspect), absl::StrCat("rank ", by),
                     absl::StrCat("rank ", suspect), "timed out", broke_off, at},
                    now_);
    now_ += kTick;
  }
  std::vector<uint64_t> Lost() {
    std::vector<uint64_t> lost;
    for (const Culprit& culprit : Judge()) lost.push_back(culprit.incarnation.value());
    return lost;
  }
  std::vector<Culprit> Judge() {
    std::vector<WorkerState> joined;
    for (int worker = 1; worker <= 30; ++worker) {
      joined.push_back({Incarnation(worker), worker == silent_ ? kStart - kTick : now_, false,
                        false, std::nullopt, false});
    }
    return suspicions_.Judge(joined);
  }

  static constexpr absl::Duration kTick = absl::Milliseconds(10);

  absl::Time now_ = kStart;
  int silent_ = 0;
  Suspicions suspicions_;
};

TEST_F(SuspicionsTest, Judge_Two_LosesWhoJoinedLast) {
  Say(2, 5);
  EXPECT_THAT(Lost(), ElementsAre(5));
  Say(7, 6);
  EXPECT_THAT(Lost(), ElementsAre(7));
}

TEST_F(SuspicionsTest, Judge_SeveralOfOne_LosesThatOne) {
  Say(8, 1);
  Say(9, 1);
  EXPECT_THAT(Lost(), ElementsAre(1));
}

TEST_F(SuspicionsTest, Judge_OneThatNobodyReachesAndThatReachesNobody_LosesThatOne) {
  Say(1, 2);  // its own next
  Say(9, 1);  // that before it
  EXPECT_THAT(Lost(), ElementsAre(1));
}

TEST_F(SuspicionsTest, Judge_ARowOfFive_LosesTheSecondAndTheFourth) {
  Say(11, 5);
  Say(5, 12);
  Say(12, 6);
  Say(6, 13);
  EXPECT_THAT(Lost(), UnorderedElementsAre(5, 6));
}

TEST_F(SuspicionsTest, Judge_SeparatePairs_LosesOneOfEach) {
  Say(1, 2);
  Say(4, 3);
  EXPECT_THAT(Lost(), UnorderedElementsAre(2, 4));
}

// Worker 1 answers nobody: the first to say so is lost for it, a second one is not.
TEST_F(SuspicionsTest, Judge_AgainTheSameOne_LosesItThen) {
  Say(9, 1);
  EXPECT_THAT(Lost(), ElementsAre(9));
  Say(8, 1);
  EXPECT_THAT(Lost(), ElementsAre(1));
}

TEST_F(SuspicionsTest, Judge_Causes_SayWhoDidNotReachWhom) {
  Say(1, 2);
  const std::vector<Culprit> suspect = Judge();
  ASSERT_EQ(suspect.size(), 1);
  EXPECT_EQ(suspect[0].cause, "rank 1 got no answer from it: timed out");
  Say(4, 3);
  const std::vector<Culprit> by = Judge();
  ASSERT_EQ(by.size(), 1);
  EXPECT_EQ(by[0].cause, "it got no answer from rank 3: timed out");
}

// As in a ring in which worker 2 misses worker 3, and lets go of the others, and so on.
TEST_F(SuspicionsTest, Judge_BrokenOff_CountsOnlyIfNobodyIsMissed) {
  Say(1, 2, /*broke_off=*/true);
  Say(20, 1, true);
  Say(2, 3);
  Say(3, 20, true);
  EXPECT_THAT(Lost(), ElementsAre(3));
}

TEST_F(SuspicionsTest, Judge_AllBrokenOffAtATime_TheFirstToSaySoCounts) {
  Say(2, 1, true);
  Say(3, 2, true);
  Say(1, 3, true);
  EXPECT_THAT(Lost(), ElementsAre(2));
}

// Worker 2's stream from worker 1 broke, and all others' streams for that; who heard of it last may
// say so first.
TEST_F(SuspicionsTest, Judge_AllBrokenOff_WhatWasFoundOutFirstCounts) {
  Say(3, 2, true, 1000.002);
  Say(4, 3, true, 1000.003);
  Say(2, 1, true, 1000.001);
  Say(1, 4, true, 1000.004);
  EXPECT_THAT(Lost(), ElementsAre(2));
}

TEST_F(SuspicionsTest, Judge_OneIsNotHeardHereEither_LosesThatOne) {
  silent_ = 1;
  Say(9, 1);
  EXPECT_THAT(Lost(), ElementsAre(1));
}

TEST_F(SuspicionsTest, OnSealed_WhoStoodBefore_IsAsGoodAsOthers) {
  Say(9, 1);
  EXPECT_THAT(Lost(), ElementsAre(9));
  suspicions_.OnSealed();
  Say(8, 1);
  EXPECT_THAT(Lost(), ElementsAre(8));
}

TEST_F(SuspicionsTest, Add_BrokenOffThenMissed_IsMissed) {
  Say(2, 1, true);
  Say(4, 3, true);
  Say(3, 4);
  EXPECT_THAT(Lost(), ElementsAre(4));
}

TEST_F(SuspicionsTest, Add_MoreThanKMost_TheFirstAreJudged) {
  for (int worker = 1; worker <= 26; worker += 2) Say(worker, worker + 1);
  EXPECT_EQ(Lost().size(), Suspicions::kMost);
  EXPECT_EQ(suspicions_.since(), std::nullopt);
}

TEST_F(SuspicionsTest, Since_FirstOfThoseLeft) {
  EXPECT_EQ(suspicions_.since(), std::nullopt);
  Say(1, 2);
  Say(2, 1);
  Say(3, 4);
  EXPECT_EQ(suspicions_.since(), kStart);
  suspicions_.Explain(Incarnation(2));
  EXPECT_EQ(suspicions_.since(), kStart + absl::Milliseconds(20));
  suspicions_.Explain(Incarnation(3));
  EXPECT_EQ(suspicions_.since(), std::nullopt);
}

TEST_F(SuspicionsTest, Since_LateStepsAndOthers_FirstOfBothKinds) {
  for (const bool late_first : {true, false}) {
    SCOPED_TRACE(late_first);
    const absl::Time begun = now_;
    for (const bool late : {late_first, !late_first}) {
      const int by = late ? 1 : 3;
      suspicions_.Add({Incarnation(by), Incarnation(by + 1), absl::StrCat("rank ", by), "",
                       "timed out", false, 0, late, Step(7)},
                      now_);
      now_ += kTick;
    }
    EXPECT_EQ(suspicions_.since(), begun);
    suspicions_.Explain(Incarnation(late_first ? 1 : 3));
    EXPECT_EQ(suspicions_.since(), begun + kTick);
    suspicions_.Forget();
    EXPECT_EQ(suspicions_.since(), std::nullopt);
  }
}

TEST_F(SuspicionsTest, Forget_All_LeavesNobodyUnderSuspicion) {
  Say(9, 1);
  suspicions_.Forget();
  EXPECT_EQ(suspicions_.since(), std::nullopt);
  Say(9, 1);
  EXPECT_THAT(Lost(), ElementsAre(9));
}

// Four workers, of which some wait in vain for step 7.
class LateStepTest : public ::testing::Test {
 protected:
  LateStepTest() {
    for (uint64_t worker = 1; worker <= 4; ++worker) {
      workers_.push_back({Incarnation(worker), kStart, false, false, Waiting(7), false});
    }
  }

  static Work Waiting(uint64_t step) {
    return {Step(step), "wait", true, {}, kStart, kStart, Generation(1)};
  }
  static Work Computing(uint64_t step) {
    return {Step(step), "forward", false, {}, kStart, kStart, Generation(1)};
  }
  WorkerState& Worker(int number) { return workers_[number - 1]; }
  // `suspect` 0: it cannot know.
  void SayLate(int by, int suspect = 0) {
    suspicions_.Add({Incarnation(by), Incarnation(suspect), absl::StrCat("rank ", by), "",
                     "timed out", false, 0, true, Step(7)},
                    kStart);
  }
  void SayBrokenOff(int by, int suspect) {
    suspicions_.Add({Incarnation(by), Incarnation(suspect), "", "", "", true, 0, false, Step(7)},
                    kStart);
  }
  std::vector<uint64_t> Lost() {
    std::vector<uint64_t> lost;
    for (const Culprit& culprit : suspicions_.Judge(workers_)) {
      lost.push_back(culprit.incarnation.value());
    }
    EXPECT_EQ(suspicions_.since(), std::nullopt);
    return lost;
  }

  std::vector<WorkerState> workers_;
  Suspicions suspicions_;
};

TEST_F(LateStepTest, Judge_AllNameOneThatComputes_ItIsLostAndTheWordSaysWhy) {
  Worker(3).work = Computing(7);
  for (const int by : {1, 2, 4}) SayLate(by, 3);
  const std::vector<Culprit> culprits = suspicions_.Judge(workers_);
  ASSERT_EQ(culprits.size(), 1u);
  EXPECT_EQ(culprits[0].incarnation, Incarnation(3));
  EXPECT_EQ(culprits[0].cause, "rank 1 waited in vain for its part of step 7: timed out");
}

// As in a ring, where each misses its neighbour, which waits itself.
TEST_F(LateStepTest, Judge_OneThatWaitsIsNamed_TheOneThatComputesIsLost) {
  Worker(3).work = Computing(7);
  SayLate(2, 1);
  EXPECT_THAT(Lost(), ElementsAre(3));
}

TEST_F(LateStepTest, Judge_AllWait_NobodyIsLost) {
  for (const int by : {1, 2, 4}) SayLate(by, 3);
  EXPECT_THAT(Lost(), IsEmpty());
}

TEST_F(LateStepTest, Judge_NobodyIsNamed_TheOneThatComputesIsLost) {
  Worker(1).work = Computing(6);
  SayLate(4);
  EXPECT_THAT(Lost(), ElementsAre(1));
}

TEST_F(LateStepTest, Judge_OneComputesTheStepBehind_ItIsNotLost) {
  Worker(1).work = Computing(8);
  Worker(2).work = Computing(7);
  SayLate(4);
  EXPECT_THAT(Lost(), ElementsAre(2));
}

TEST_F(LateStepTest, Judge_OthersBrokeOffForIt_IsPassedOver) {
  Worker(3).work = Computing(7);
  SayBrokenOff(1, 2);
  SayLate(2, 1);
  SayBrokenOff(4, 2);
  EXPECT_THAT(Lost(), ElementsAre(3));
}

TEST_F(LateStepTest, Judge_AllWaitAndOthersBrokeOffForIt_NobodyIsLost) {
  SayBrokenOff(1, 2);
  SayLate(2, 1);
  EXPECT_THAT(Lost(), IsEmpty());
}

// Its trainer hangs while it waits, though all is there.
TEST_F(LateStepTest, Judge_OneThatWaitsIsNotReadyAsTheOthersAre_ItIsLost) {
  for (const int worker : {1, 2, 4}) Worker(worker).ready = true;
  SayLate(4);
  EXPECT_THAT(Lost(), ElementsAre(3));
}

TEST_F(LateStepTest, Judge_OneThatComputesBesideOneThatIsNotReady_IsLostAlone) {
  for (const int worker : {1, 4}) Worker(worker).ready = true;
  Worker(3).work = Computing(7);
  SayLate(4);
  EXPECT_THAT(Lost(), ElementsAre(3));
}

// It may yet hear that its step is sealed.
TEST_F(LateStepTest, Judge_OneWaitsInTheStepBefore_NobodyIsLost) {
  Worker(3).work = Waiting(6);
  SayLate(4);
  EXPECT_THAT(Lost(), IsEmpty());
}

TEST_F(LateStepTest, Judge_OneWaitsTwoStepsBefore_ItIsLost) {
  Worker(3).work = Waiting(5);
  SayLate(4);
  EXPECT_THAT(Lost(), ElementsAre(3));
}

TEST_F(LateStepTest, Judge_OneHasNotBegunWithTheView_ItIsLost) {
  Worker(2).work.reset();
  SayLate(4);
  EXPECT_THAT(Lost(), ElementsAre(2));
}

TEST_F(LateStepTest, Judge_OneHasNotDeclaredALayout_ItIsLost) {
  for (WorkerState& worker : workers_) worker.work.reset();
  Worker(2).owes_layout = true;
  SayLate(4);
  EXPECT_THAT(Lost(), ElementsAre(2));
}

TEST_F(LateStepTest, Judge_NobodyTellsOfWork_TheNamedAreLost) {
  for (WorkerState& worker : workers_) worker.work.reset();
  SayLate(4, 2);
  SayLate(4, 3);
  EXPECT_THAT(Lost(), ElementsAre(2, 3));
}

TEST_F(LateStepTest, Judge_OneIsSilentSinceAndAllWait_ItIsLost) {
  Worker(3).heard = kStart - absl::Seconds(1);
  SayLate(4);
  EXPECT_THAT(Lost(), ElementsAre(3));
}

TEST_F(LateStepTest, Judge_OneIsSilentBesideOneThatComputes_TheLatterIsLost) {
  Worker(3).heard = kStart - absl::Seconds(1);
  Worker(3).work = Computing(7);  // as it said last
  Worker(1).work = Computing(7);
  SayLate(4);
  EXPECT_THAT(Lost(), ElementsAre(1));
}

TEST_F(LateStepTest, Judge_OneHasFinished_ItIsNotLost) {
  Worker(3).work = Computing(7);
  Worker(3).is_over = true;
  SayLate(4, 3);
  EXPECT_THAT(Lost(), IsEmpty());
}

TEST_F(LateStepTest, Explain_WhoSaidSoIsLost_NobodyElseIs) {
  Worker(3).work = Computing(7);
  SayLate(4);
  suspicions_.Explain(Incarnation(4));
  EXPECT_EQ(suspicions_.since(), std::nullopt);
}

}  // namespace
}  // namespace gradwire
