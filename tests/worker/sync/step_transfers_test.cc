#include "worker/sync/step_transfers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/worker/sync/fake_backend.h"
#include "worker/sync/ddp_sync.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using testing::FakeBackend;

// A step of two gradient buckets and the buffers, bucket 2.
class StepTransfersTest : public ::testing::Test {
 protected:
  StepBuckets Buckets() {
    return {{{absl::MakeConstSpan(terms_, 2), absl::MakeSpan(means_, 2)},
             {absl::MakeConstSpan(terms_ + 2, 3), absl::MakeSpan(means_ + 2, 3)}},
            absl::MakeSpan(buffers_)};
  }
  void Begin(absl::Duration timeout = absl::Hours(1)) {
    transfers_.Begin(Step(7), Buckets(), timeout);
  }

  float terms_[5] = {1, 2, 3, 4, 5};
  float means_[5] = {};
  uint8_t buffers_[4] = {};
  FakeBackend backend_;
  StepTransfers transfers_{&backend_};
};

TEST_F(StepTransfersTest, HandInRest_OneHandedIn_OthersInOrder) {
  Begin();
  transfers_.HandIn(1);
  transfers_.HandInRest();
  EXPECT_THAT(backend_.buckets(), ElementsAre(1, 0, 2));
  transfers_.Abandon(absl::CancelledError("over"));
}

TEST_F(StepTransfersTest, HandIn_AllOfAStep_OneDeadlineFromTheFirst) {
  Begin();
  const absl::Time before = absl::Now();
  transfers_.HandInRest();
  const auto transfers = backend_.handed_in();
  EXPECT_GE(transfers[0].deadline, before + absl::Hours(1));
  EXPECT_LE(transfers[0].deadline, absl::Now() + absl::Hours(1));
  EXPECT_EQ(transfers[1].deadline, transfers[0].deadline);
  EXPECT_EQ(transfers[2].deadline, transfers[0].deadline);
  transfers_.Abandon(absl::CancelledError("over"));
}

TEST_F(StepTransfersTest, Next_SeveralThere_HighestFirst) {
  Begin();
  transfers_.HandInRest();
  for (const int bucket : {0, 2, 1}) backend_.End(bucket);
  EXPECT_EQ(transfers_.Next().value(), 2u);
  EXPECT_EQ(transfers_.Next().value(), 1u);
  EXPECT_EQ(transfers_.Next().value(), 0u);
}

TEST_F(StepTransfersTest, Next_NoneThereYet_WaitsForOne) {
  Begin();
  transfers_.HandInRest();
  std::thread peer([&] { backend_.End(1); });
  EXPECT_EQ(transfers_.Next().value(), 1u);
  peer.join();
  transfers_.Abandon(absl::CancelledError("over"));
}

TEST_F(StepTransfersTest, Next_OneFailed_ItsErrorBeforeWhatIsThere) {
  Begin();
  transfers_.HandInRest();
  backend_.End(2);
  backend_.End(0, absl::UnavailableError("rank 1 is gone"));
  EXPECT_EQ(transfers_.Next().status(), absl::UnavailableError("rank 1 is gone"));
  EXPECT_EQ(transfers_.Next().status(), absl::UnavailableError("rank 1 is gone"));
  transfers_.Abandon(absl::CancelledError("over"));
}

TEST_F(StepTransfersTest, Next_NothingHandedIn_FailedPrecondition) {
  Begin();
  EXPECT_EQ(transfers_.Next().status(),
            absl::FailedPreconditionError("step 7: no bucket is under way"));
}

TEST_F(StepTransfersTest, Next_BackEndSilentPastTheDeadline_DeadlineExceeded) {
  Begin(-absl::Seconds(10));
  transfers_.HandIn(0);
  EXPECT_EQ(transfers_.Next().status(),
            absl::DeadlineExceededError("step 7: a neighbour takes no more data"));
  transfers_.Abandon(absl::CancelledError("over"));
}

TEST_F(StepTransfersTest, Abandon_TransfersUnderWay_CancelledAndEnded) {
  Begin();
  transfers_.HandInRest();
  backend_.End(1);
  transfers_.Abandon(absl::CancelledError("stopped"));
  EXPECT_EQ(backend_.cancelled(), absl::CancelledError("stopped"));
  EXPECT_EQ(backend_.under_way(), 0u);
}

TEST_F(StepTransfersTest, Abandon_NothingUnderWay_BackEndIsNotCancelled) {
  Begin();
  transfers_.HandIn(0);
  backend_.End(0);
  transfers_.Abandon(absl::CancelledError("stopped"));
  EXPECT_TRUE(backend_.cancelled().ok());
}

TEST_F(StepTransfersTest, Begin_AfterAFailedStep_StartsAnew) {
  Begin();
  transfers_.HandIn(0);
  backend_.End(0, absl::UnavailableError("gone"));
  Begin();
  transfers_.HandIn(0);
  backend_.End(0);
  EXPECT_EQ(transfers_.Next().value(), 0u);
}

TEST_F(StepTransfersTest, Times_TransfersOverlap_WallTimeCountedOnce) {
  const absl::Time start = absl::Now();
  Begin();
  transfers_.HandInRest();
  for (const int bucket : {0, 1, 2}) backend_.End(bucket);
  const absl::Duration wall = absl::Now() - start;
  EXPECT_GT(transfers_.times().communication, absl::ZeroDuration());
  EXPECT_LE(transfers_.times().communication, wall);
}

TEST_F(StepTransfersTest, Times_ResultsThereBeforeTheyAreWanted_NothingExposed) {
  Begin();
  transfers_.HandIn(0);
  backend_.End(0);
  ASSERT_TRUE(transfers_.Next().ok());
  EXPECT_EQ(transfers_.times().exposed_communication, absl::ZeroDuration());
}

class DdpSyncTest : public StepTransfersTest {
 protected:
  DdpSync sync_{&backend_};
};

TEST_F(DdpSyncTest, OnForwardDone_Buffers_LeaveBeforeBackward) {
  sync_.OnForwardDone(Step(7), Buckets(), absl::Hours(1));
  EXPECT_THAT(backend_.buckets(), ElementsAre(2));
  sync_.Abandon(absl::CancelledError("over"));
}

TEST_F(DdpSyncTest, OnBucketReady_FirstBucket_LeavesBeforeBackwardIsDone) {
  sync_.OnForwardDone(Step(7), Buckets(), absl::Hours(1));
  sync_.OnBucketReady(0);
  EXPECT_THAT(backend_.buckets(), ElementsAre(2, 0));
  sync_.Abandon(absl::CancelledError("over"));
}

TEST_F(DdpSyncTest, OnBackwardDone_BucketWithoutGradient_LeavesNow) {
  sync_.OnForwardDone(Step(7), Buckets(), absl::Hours(1));
  sync_.OnBucketReady(0);
  sync_.OnBackwardDone();
  EXPECT_THAT(backend_.buckets(), ElementsAre(2, 0, 1));
  sync_.Abandon(absl::CancelledError("over"));
}

}  // namespace
}  // namespace gradwire
