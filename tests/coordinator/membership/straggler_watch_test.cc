#include "coordinator/membership/straggler_watch.h"

#include <gmock/gmock.h>

#include <map>

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Three workers in virtual time; iterations take 100 ms unless said otherwise.
class StragglerWatchTest : public ::testing::Test {
 protected:
  StragglerWatchTest() { Iterations(absl::Milliseconds(100)); }

  void Iterations(absl::Duration iteration) {
    for (int i = 0; i < 21; ++i) watch_.OnStep(iteration);
  }
  void Computes(int worker, uint64_t step) {
    watch_.OnWork(Incarnation(worker), {Step(step), "backward", false, {}, now_, now_, {}});
  }
  void Waits(int worker, uint64_t step, int bucket = 3) {
    watch_.OnWork(Incarnation(worker), WaitingIn(step, bucket));
  }
  Work WaitingIn(uint64_t step, int bucket = 3) const {
    return {Step(step), "wait", true, Bucket(bucket), now_, now_, {}};
  }
  // All that are named within `duration`, while those in `well` say four times a second what they
  // are at.
  std::vector<uint64_t> NamedWithin(absl::Duration duration, const std::map<int, Work>& well) {
    std::vector<uint64_t> named;
    for (const absl::Time end = now_ + duration; now_ < end;) {
      for (const auto& [worker, work] : well) Repeat(worker, work);
      for (const Straggler& straggler : After(absl::Milliseconds(250))) {
        named.push_back(straggler.worker.value());
      }
    }
    return named;
  }
  // Each second those who are well say again what they are at.
  void Repeat(int worker, Work work) {
    work.told = now_;
    watch_.OnWork(Incarnation(worker), std::move(work));
  }
  std::vector<Straggler> After(absl::Duration duration) {
    now_ += duration;
    return watch_.Find(now_);
  }

  StragglerWatch watch_{absl::Seconds(3)};
  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(StragglerWatchTest, Find_OneComputesWhileOthersWait_IsNamedAfterTwoSeconds) {
  Waits(1, 17);
  now_ += absl::Milliseconds(500);
  Waits(2, 17, 5);
  Computes(3, 17);
  EXPECT_THAT(After(absl::Milliseconds(1500)), IsEmpty());
  const std::vector<Straggler> found = After(absl::Milliseconds(1));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].worker, Incarnation(3));
  EXPECT_EQ(found[0].step, Step(17));
  EXPECT_EQ(found[0].waiting, Incarnation(1));
  EXPECT_EQ(found[0].bucket, Bucket(3));
  EXPECT_EQ(found[0].waited, absl::Milliseconds(2001));
  EXPECT_EQ(found[0].work.phase, "backward");
}

TEST_F(StragglerWatchTest, Find_LongIterations_AfterThreeTimesTheirMedian) {
  Iterations(absl::Seconds(4));
  Waits(1, 17);
  Computes(2, 17);
  EXPECT_THAT(After(absl::Seconds(12)), IsEmpty());
  EXPECT_THAT(After(absl::Milliseconds(1)), SizeIs(1));
}

TEST_F(StragglerWatchTest, Find_OneOutlier_DoesNotMoveTheMedian) {
  for (int i = 0; i < 10; ++i) watch_.OnStep(absl::Seconds(60));
  Waits(1, 17);
  Computes(2, 17);
  EXPECT_THAT(After(absl::Milliseconds(2001)), SizeIs(1));
}

TEST_F(StragglerWatchTest, Find_IterationsWereSlowAtFirst_OnlyTheLatestCount) {
  for (int times = 0; times < 3; ++times) Iterations(absl::Seconds(4));
  Iterations(absl::Milliseconds(100));
  Waits(1, 17);
  Computes(2, 17);
  EXPECT_THAT(After(absl::Milliseconds(2001)), SizeIs(1));
}

TEST_F(StragglerWatchTest, Find_BeforeAnyStepIsDone_NamesNobody) {
  StragglerWatch watch(absl::Seconds(3));
  watch.OnWork(Incarnation(1), {Step(0), "wait", true, Bucket(0), now_, now_, {}});
  watch.OnWork(Incarnation(2), {Step(0), "backward", false, {}, now_, now_, {}});
  EXPECT_THAT(watch.Find(now_ + absl::Hours(1)), IsEmpty());
}

TEST_F(StragglerWatchTest, Find_Again_OnlyOnceAStepAndWorker) {
  Waits(1, 17);
  Computes(2, 17);
  EXPECT_THAT(After(absl::Seconds(3)), SizeIs(1));
  EXPECT_THAT(After(absl::Seconds(3)), IsEmpty());
  Computes(2, 17);
  EXPECT_THAT(After(absl::Seconds(3)), IsEmpty());
  Computes(3, 17);
  const std::vector<Straggler> other = After(absl::Seconds(3));
  ASSERT_THAT(other, SizeIs(1));
  EXPECT_EQ(other[0].worker, Incarnation(3));
  Waits(1, 18);
  EXPECT_THAT(After(absl::Seconds(3)), SizeIs(2));
}

// The network is slow, or the aggregator: it is nobody's compute.
TEST_F(StragglerWatchTest, Find_AllWaitAndAllAreHeard_NamesNobody) {
  for (int worker = 1; worker <= 3; ++worker) Waits(worker, 17);
  const Work waiting{Step(17), "wait", true, Bucket(3), now_, now_};
  now_ += absl::Seconds(9);
  for (int worker = 1; worker <= 3; ++worker) Repeat(worker, waiting);
  EXPECT_THAT(After(absl::Seconds(2)), IsEmpty());
}

TEST_F(StragglerWatchTest, Find_AllWaitAndOneHasFallenSilent_ItIsNamed) {
  for (int worker = 1; worker <= 3; ++worker) Waits(worker, 17);
  const Work waiting{Step(17), "wait", true, Bucket(3), now_, now_};
  now_ += absl::Seconds(2);
  Repeat(1, waiting);
  Repeat(3, waiting);
  EXPECT_THAT(After(absl::Seconds(1)), IsEmpty());
  const std::vector<Straggler> found = After(absl::Milliseconds(1));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].worker, Incarnation(2));
}

// Stopped while it waited; the others got what they needed of it and went on to the next step.
TEST_F(StragglerWatchTest, Find_OneStaysInAnEarlierStep_IsNamedThoughItWaitedFirst) {
  Waits(2, 16);
  now_ += absl::Milliseconds(100);
  Waits(1, 17);
  Waits(3, 17);
  const std::vector<Straggler> found = After(absl::Milliseconds(2001));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].worker, Incarnation(2));
  EXPECT_EQ(found[0].step, Step(17));
  EXPECT_EQ(found[0].work.step, Step(16));
}

// Worker 1 lacks a mean that only the stopped one has; worker 2 has all, and is a step further.
TEST_F(StragglerWatchTest, Find_OneStoppedWhileItWaited_OthersThatLackItsMeanAreNotNamed) {
  Waits(3, 17);
  const std::map<int, Work> well = {{1, WaitingIn(17)}, {2, WaitingIn(18)}};
  EXPECT_THAT(NamedWithin(absl::Seconds(9), well), ElementsAre(3));
}

TEST_F(StragglerWatchTest, Find_OneStoppedThatHadWaitedForLongest_OnlyItIsNamed) {
  Waits(3, 18);
  now_ += absl::Milliseconds(100);
  const std::map<int, Work> well = {{1, WaitingIn(17)}, {2, WaitingIn(18)}};
  EXPECT_THAT(NamedWithin(absl::Seconds(9), well), ElementsAre(3));
}

TEST_F(StragglerWatchTest, Find_OneStoppedAheadOfTheOthers_OnlyItIsNamed) {
  Computes(3, 19);
  const std::map<int, Work> well = {{1, WaitingIn(17)}, {2, WaitingIn(18)}};
  EXPECT_THAT(NamedWithin(absl::Seconds(9), well), ElementsAre(3));
}

// Its trainer hangs while it waits.
TEST_F(StragglerWatchTest, Find_OneStaysInAnEarlierStepAndAllAreHeard_IsNamed) {
  const std::map<int, Work> well = {{1, WaitingIn(16)}, {2, WaitingIn(17)}, {3, WaitingIn(17)}};
  EXPECT_THAT(NamedWithin(absl::Seconds(9), well), ElementsAre(1));
}

TEST_F(StragglerWatchTest, Find_OneIsAhead_IsNoStraggler) {
  Waits(1, 17);
  Waits(2, 17);
  Computes(3, 18);
  EXPECT_THAT(After(absl::Seconds(3)), IsEmpty());
}

TEST_F(StragglerWatchTest, Forget_NobodyWaitsAnyMore) {
  Waits(1, 17);
  Computes(2, 17);
  watch_.Forget();
  EXPECT_THAT(After(absl::Seconds(9)), IsEmpty());
}

}  // namespace
}  // namespace gradwire
