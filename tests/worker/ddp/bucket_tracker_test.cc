#include "worker/ddp/bucket_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "tests/worker/ddp/fake_exchange.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using testing::FakeExchange;

// A step of three buckets of a worker that carries ranks 2 and 5.
class BucketTrackerTest : public ::testing::Test {
 protected:
  BucketTrackerTest() { step_.Attach(&exchange_, LayoutId(3), 3, 2); }
  void Begin(absl::Duration timeout = absl::Hours(1)) { step_.Begin(Step(7), timeout); }
  void Contribute(size_t bucket, size_t index = 0) {
    step_.Contribute(bucket, index, Rank(index == 0 ? 2 : 5), absl::MakeSpan(terms_),
                     absl::MakeSpan(result_));
  }
  void ContributeAll() {
    for (size_t bucket = 0; bucket < 3; ++bucket) Contribute(bucket);
  }

  uint8_t terms_[4] = {1, 2, 3, 4};
  uint8_t result_[4] = {};
  FakeExchange exchange_;
  BucketTracker step_;
};

TEST_F(BucketTrackerTest, Contribute_SecondRank_ContributesToWhatIsExpected) {
  Begin();
  Contribute(1, 0);
  Contribute(1, 1);
  EXPECT_THAT(exchange_.buckets(), ElementsAre(1));
  EXPECT_THAT(exchange_.contributions(),
              ElementsAre(FakeExchange::Contribution{1, 2}, FakeExchange::Contribution{1, 5}));
  step_.Abandon(absl::CancelledError("over"));
}

TEST_F(BucketTrackerTest, Contribute_NoTerms_OnlyExpects) {
  Begin();
  step_.Contribute(0, 0, Rank(2), {}, absl::MakeSpan(result_));
  EXPECT_THAT(exchange_.buckets(), ElementsAre(0));
  EXPECT_THAT(exchange_.contributions(), ElementsAre());
  step_.Abandon(absl::CancelledError("over"));
}

TEST_F(BucketTrackerTest, Contribute_Key_NamesLayoutAndStep) {
  Begin();
  Contribute(0);
  EXPECT_EQ(exchange_.expected()[0].key, (BucketKey{LayoutId(3), Step(7), Bucket(0)}));
  step_.Abandon(absl::CancelledError("over"));
}

TEST_F(BucketTrackerTest, Contributed_OneRankOfTwo_OnlyThatOne) {
  Begin();
  Contribute(1, 1);
  EXPECT_TRUE(step_.Contributed(1, 1));
  EXPECT_FALSE(step_.Contributed(1, 0));
  step_.Abandon(absl::CancelledError("over"));
}

TEST_F(BucketTrackerTest, Contribute_AllOfAStep_OneDeadlineFromTheFirst) {
  Begin();
  const absl::Time before = SteadyNow();
  ContributeAll();
  const auto transfers = exchange_.expected();
  EXPECT_GE(transfers[0].deadline, before + absl::Hours(1));
  EXPECT_LE(transfers[0].deadline, SteadyNow() + absl::Hours(1));
  EXPECT_EQ(transfers[1].deadline, transfers[0].deadline);
  EXPECT_EQ(transfers[2].deadline, transfers[0].deadline);
  step_.Abandon(absl::CancelledError("over"));
}

TEST_F(BucketTrackerTest, Contribute_NextStep_HasADeadlineOfItsOwn) {
  Begin(absl::Hours(1));
  Contribute(0);
  exchange_.End(0);
  ASSERT_TRUE(step_.Next().ok());
  const absl::Time before = SteadyNow();
  Begin(absl::Hours(2));
  ContributeAll();
  EXPECT_GE(exchange_.expected()[1].deadline, before + absl::Hours(2));
  EXPECT_LE(exchange_.expected()[1].deadline, SteadyNow() + absl::Hours(2));
  step_.Abandon(absl::CancelledError("over"));
}

TEST_F(BucketTrackerTest, Next_SeveralThere_HighestFirst) {
  Begin();
  ContributeAll();
  for (const int bucket : {0, 2, 1}) exchange_.End(bucket);
  EXPECT_EQ(step_.Next().value(), 2u);
  EXPECT_EQ(step_.Next().value(), 1u);
  EXPECT_EQ(step_.Next().value(), 0u);
}

TEST_F(BucketTrackerTest, Next_NoneThereYet_WaitsForOne) {
  Begin();
  ContributeAll();
  std::thread peer([&] { exchange_.End(1); });
  EXPECT_EQ(step_.Next().value(), 1u);
  peer.join();
  step_.Abandon(absl::CancelledError("over"));
}

TEST_F(BucketTrackerTest, Next_OneFailed_ItsErrorBeforeWhatIsThere) {
  Begin();
  ContributeAll();
  exchange_.End(2);
  exchange_.End(0, absl::UnavailableError("rank 1 is gone"));
  EXPECT_EQ(step_.Next().status(), absl::UnavailableError("rank 1 is gone"));
  EXPECT_EQ(step_.Next().status(), absl::UnavailableError("rank 1 is gone"));
  step_.Abandon(absl::CancelledError("over"));
}

TEST_F(BucketTrackerTest, Next_NothingHandedIn_FailedPrecondition) {
  Begin();
  EXPECT_EQ(step_.Next().status(), absl::FailedPreconditionError("step 7: no bucket is under way"));
}

TEST_F(BucketTrackerTest, Next_ExchangeSilentPastTheDeadline_DeadlineExceeded) {
  Begin(-absl::Seconds(10));
  Contribute(0);
  EXPECT_EQ(step_.Next().status(),
            absl::DeadlineExceededError("step 7: a neighbor takes no more data"));
  step_.Abandon(absl::CancelledError("over"));
}

TEST_F(BucketTrackerTest, Abandon_TransfersUnderWay_CancelledAndEnded) {
  Begin();
  ContributeAll();
  exchange_.End(1);
  step_.Abandon(absl::CancelledError("stopped"));
  EXPECT_EQ(exchange_.cancelled(), absl::CancelledError("stopped"));
  EXPECT_EQ(exchange_.under_way(), 0u);
}

TEST_F(BucketTrackerTest, Abandon_NothingUnderWay_ExchangeIsNotCancelled) {
  Begin();
  Contribute(0);
  exchange_.End(0);
  step_.Abandon(absl::CancelledError("stopped"));
  EXPECT_TRUE(exchange_.cancelled().ok());
}

TEST_F(BucketTrackerTest, Begin_AfterAFailedStep_StartsAnew) {
  Begin();
  Contribute(0);
  exchange_.End(0, absl::UnavailableError("gone"));
  Begin();
  Contribute(0);
  exchange_.End(0);
  EXPECT_EQ(step_.Next().value(), 0u);
}

TEST_F(BucketTrackerTest, Times_TransfersOverlap_WallTimeCountedOnce) {
  const absl::Time start = SteadyNow();
  Begin();
  ContributeAll();
  for (const int bucket : {0, 1, 2}) exchange_.End(bucket);
  const absl::Duration wall = SteadyNow() - start;
  EXPECT_GT(step_.times()[Phase::kCommunication], absl::ZeroDuration());
  EXPECT_LE(step_.times()[Phase::kCommunication], wall);
}

// Long against what a busy machine adds to it.
constexpr absl::Duration kWhile = absl::Milliseconds(50);

TEST_F(BucketTrackerTest, Times_BucketHandedInWhileOneIsUnderWay_CountedFromTheFirst) {
  Begin();
  Contribute(0);
  absl::SleepFor(kWhile);
  Contribute(1);
  exchange_.End(0);
  exchange_.End(1);
  EXPECT_GE(step_.times()[Phase::kCommunication], kWhile);
}

TEST_F(BucketTrackerTest, Times_NoneUnderWayForAWhile_NotCounted) {
  const absl::Time start = SteadyNow();
  Begin();
  Contribute(0);
  exchange_.End(0);
  absl::SleepFor(kWhile);
  Contribute(1);
  exchange_.End(1);
  EXPECT_LE(step_.times()[Phase::kCommunication], SteadyNow() - start - kWhile);
}

TEST_F(BucketTrackerTest, Times_OneIsUnderWay_CountedUntilNow) {
  Begin();
  Contribute(0);
  absl::SleepFor(kWhile);
  EXPECT_GE(step_.times()[Phase::kCommunication], kWhile);
  step_.Abandon(absl::CancelledError("over"));
}

TEST_F(BucketTrackerTest, Times_NextWaits_ExposedAsLong) {
  Begin();
  Contribute(0);
  std::thread peer([&] {
    absl::SleepFor(kWhile);
    exchange_.End(0);
  });
  const absl::Time start = SteadyNow();
  ASSERT_TRUE(step_.Next().ok());
  const absl::Duration waited = SteadyNow() - start;
  peer.join();
  EXPECT_LE(step_.times()[Phase::kExposedCommunication], waited);
  EXPECT_GE(step_.times()[Phase::kExposedCommunication], waited / 2);
}

TEST_F(BucketTrackerTest, Times_NextStep_BeginsAtNothing) {
  Begin();
  Contribute(0);
  absl::SleepFor(kWhile);
  exchange_.End(0);
  Begin();
  EXPECT_EQ(step_.times()[Phase::kCommunication], absl::ZeroDuration());
}

TEST_F(BucketTrackerTest, Times_ResultsThereBeforeTheyAreWanted_NothingExposed) {
  Begin();
  Contribute(0);
  exchange_.End(0);
  ASSERT_TRUE(step_.Next().ok());
  EXPECT_EQ(step_.times()[Phase::kExposedCommunication], absl::ZeroDuration());
}

TEST_F(BucketTrackerTest, Next_OneFailedAndOthersEndedLater_TheFirstErrorStays) {
  Begin();
  ContributeAll();
  exchange_.End(0, absl::UnavailableError("rank 1 is gone"));
  exchange_.End(2, absl::CancelledError("over"));
  exchange_.End(1);
  EXPECT_EQ(step_.Next().status(), absl::UnavailableError("rank 1 is gone"));
}

}  // namespace
}  // namespace gradwire
