// Separate aggregators in the membership of a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "coordinator/membership/membership.h"
#include "tests/coordinator/membership/outcome.h"
#include "tests/coordinator/membership/test_hello.h"

namespace gradwire {
namespace {

using ::gradwire::testing::All;
using ::gradwire::testing::TestHello;
using ::gradwire::testing::TestLayout;
using ::gradwire::testing::TestOffer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kWorker = 1;  // sessions
constexpr int kAggregator = 11;

// A run of one worker and two aggregators.
class MembershipAggregatorTest : public ::testing::Test {
 protected:
  static MembershipConfig Config() {
    MembershipConfig config;
    config.world_size = 1;
    config.aggregators = 2;
    return config;
  }

  Outcome Hello() { return membership_.OnHello(SessionId(kWorker), TestHello(kWorker, {0}), now_); }
  Outcome Offer(int session, const std::string& address) {
    return membership_.OnOffer(SessionId(session), TestOffer(session, address), now_);
  }
  Outcome Form() {
    Hello();
    Offer(kAggregator, "10.10.1.11:1");
    return Offer(kAggregator + 1, "10.10.1.12:1");
  }

  absl::Time now_ = absl::FromUnixSeconds(1000);
  Membership membership_{Config(), now_};
};

TEST_F(MembershipAggregatorTest, OnOffer_LastOne_AllGetTheViewWithAddresses) {
  const Outcome outcome = Form();
  const auto views = All<SendView>(outcome);
  ASSERT_EQ(views.size(), 3u);
  for (const SendView& sent : views) {
    EXPECT_THAT(sent.view.aggregators, ElementsAre("10.10.1.11:1", "10.10.1.12:1"));
  }
  EXPECT_FALSE(views[0].view.aggregator.has_value());
  EXPECT_EQ(views[2].view.aggregator, 1);
}

TEST_F(MembershipAggregatorTest, OnOffer_First_ItsShareIsNamed) {
  EXPECT_EQ(
      Offer(kAggregator, "10.10.1.11:1").why,
      "aggregator 0 (10.10.1.11:1) joined; 0 of 1 workers and 1 of 2 aggregators are present");
}

TEST_F(MembershipAggregatorTest, OnHello_AggregatorsMissing_RunWaits) {
  const Outcome outcome = Hello();
  EXPECT_TRUE(outcome.actions.empty());
  EXPECT_THAT(outcome.why, HasSubstr("1 of 1 workers and 0 of 2 aggregators are present"));
}

TEST_F(MembershipAggregatorTest, OnHello_OneTooManyWhileAggregatorsAreMissing_FailedPrecondition) {
  Hello();
  const Outcome outcome = membership_.OnHello(SessionId(2), TestHello(2), now_);
  EXPECT_EQ(All<CloseSession>(outcome).at(0).status,
            absl::FailedPreconditionError("the run has all its workers; its world size is 1"));
}

TEST_F(MembershipAggregatorTest, OnOffer_OneTooMany_FailedPrecondition) {
  Form();
  const Outcome outcome = Offer(13, "10.10.1.13:1");
  EXPECT_EQ(All<CloseSession>(outcome).at(0).status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(outcome.why, HasSubstr("got one more, expected 2"));
}

TEST_F(MembershipAggregatorTest, OnOffer_SameIncarnation_AlreadyExists) {
  Offer(kAggregator, "10.10.1.11:1");
  const Outcome outcome =
      membership_.OnOffer(SessionId(99), TestOffer(kAggregator, "10.10.1.12:1"), now_);
  EXPECT_EQ(All<CloseSession>(outcome).at(0).status.code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(MembershipAggregatorTest, OnOffer_NoAddress_InvalidArgument) {
  const Outcome outcome = Offer(kAggregator, "here");
  EXPECT_EQ(All<CloseSession>(outcome).at(0).status.code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(MembershipAggregatorTest, OnOffer_LoopbackAmongOthers_InvalidArgument) {
  Hello();
  const Outcome outcome = Offer(kAggregator, "127.0.0.1:1");
  EXPECT_THAT(std::string(All<CloseSession>(outcome).at(0).status.message()),
              HasSubstr("cannot be reached from other hosts"));
}

TEST_F(MembershipAggregatorTest, OnStreamClosed_BeforeTheRun_PlaceIsFree) {
  Offer(kAggregator, "10.10.1.11:1");
  const Outcome outcome = membership_.OnStreamClosed(SessionId(kAggregator), "it broke", now_);
  EXPECT_THAT(outcome.why, HasSubstr("0 of 2 aggregators are present"));
  Hello();
  Offer(12, "10.10.1.12:1");
  EXPECT_EQ(All<FormRun>(Offer(13, "10.10.1.13:1")).size(), 1u);
}

TEST_F(MembershipAggregatorTest, OnSuspect_OfAnAggregator_IsNonsense) {
  Form();
  v1::Suspect suspect;
  suspect.set_incarnation(kAggregator);
  suspect.set_cause("no answer");
  const Outcome outcome = membership_.OnSuspect(SessionId(kWorker), suspect, now_);
  EXPECT_THAT(outcome.why, HasSubstr("Suspect of 11, which is no worker"));
}

TEST_F(MembershipAggregatorTest, OnStreamClosed_InTheRun_EndsItForAll) {
  Form();
  const Outcome outcome = membership_.OnStreamClosed(SessionId(kAggregator), "it broke", now_);
  EXPECT_THAT(All<TellLoss>(outcome), IsEmpty());  // it carries no ranks
  EXPECT_EQ(All<SendAbort>(outcome).size(), 2u);
  EXPECT_EQ(All<EndRun>(outcome).at(0).status,
            absl::AbortedError("aggregator 0 (10.10.1.11:1) was lost in step 0: it broke"));
}

TEST_F(MembershipAggregatorTest, OnTick_SilentForTheLease_EndsTheRun) {
  Form();
  Outcome outcome;
  for (int tenths = 0; tenths < 110 && outcome.actions.empty(); ++tenths) {
    now_ += absl::Milliseconds(100);
    membership_.OnHeartbeat(SessionId(kWorker), {}, now_);
    membership_.OnHeartbeat(SessionId(kAggregator), {}, now_);
    outcome = membership_.OnTick(now_);
  }
  EXPECT_THAT(std::string(All<EndRun>(outcome).at(0).status.message()),
              HasSubstr("aggregator 1 (10.10.1.12:1) was lost in step 0: it was silent for 10 s"));
}

TEST_F(MembershipAggregatorTest, OnLeave_Stopping_EndsTheRunWithItsReason) {
  Form();
  v1::Leave leave;
  leave.set_reason("stopped by SIGTERM");
  const Outcome outcome = membership_.OnLeave(SessionId(kAggregator), leave, now_);
  EXPECT_THAT(std::string(All<EndRun>(outcome).at(0).status.message()),
              HasSubstr("it left: stopped by SIGTERM"));
}

TEST_F(MembershipAggregatorTest, OnLeave_AllRanksFinished_AggregatorsEndWithOk) {
  Form();
  v1::Leave leave;
  leave.set_finished(true);
  const Outcome outcome = membership_.OnLeave(SessionId(kWorker), leave, now_);
  const auto closed = All<CloseSession>(outcome);
  ASSERT_EQ(closed.size(), 3u);
  for (const CloseSession& close : closed) EXPECT_TRUE(close.status.ok());
  EXPECT_EQ(All<SendFinish>(outcome).size(), 2u);
}

TEST_F(MembershipAggregatorTest, OnStepDone_FromAnAggregator_ClosesIt) {
  Form();
  const Outcome outcome = membership_.OnStepDone(SessionId(kAggregator), v1::StepDone(), now_);
  EXPECT_THAT(std::string(All<EndRun>(outcome).at(0).status.message()),
              HasSubstr("aggregator 0 (10.10.1.11:1) was lost in step 0: it broke the protocol"));
}

TEST_F(MembershipAggregatorTest, OnOffer_OtherProtocol_IsRefused) {
  v1::Offer offer = TestOffer(kAggregator, "10.10.1.11:1");
  offer.set_protocol(1);
  const Outcome outcome = membership_.OnOffer(SessionId(kAggregator), offer, now_);
  EXPECT_THAT(std::string(All<CloseSession>(outcome).at(0).status.message()),
              HasSubstr("got protocol 1"));
}

TEST_F(MembershipAggregatorTest, OnLayout_AllDeclared_AggregatorsHearFirstAndGetTheBuckets) {
  Form();
  const auto sent =
      All<SendLayoutAgreed>(membership_.OnLayout(SessionId(kWorker), TestLayout(), now_));
  ASSERT_EQ(sent.size(), 3u);
  const BucketSpec bucket{24, v1::DTYPE_FLOAT32};
  EXPECT_THAT(sent[0].buckets, ElementsAre(bucket));
  EXPECT_THAT(sent[1].buckets, ElementsAre(bucket));
  EXPECT_EQ(sent[2].session, SessionId(kWorker));
  EXPECT_THAT(sent[2].buckets, ElementsAre());
}

TEST_F(MembershipAggregatorTest, OnTick_AggregatorsStayAway_SaysHowManyCame) {
  Hello();
  Outcome outcome;
  for (int tenths = 0; tenths < 6010 && outcome.actions.empty(); ++tenths) {
    now_ += absl::Milliseconds(100);
    membership_.OnHeartbeat(SessionId(kWorker), {}, now_);
    outcome = membership_.OnTick(now_);
  }
  EXPECT_EQ(
      All<EndRun>(outcome).at(0).status,
      absl::DeadlineExceededError("1 of 1 workers came within 600 s; 0 of 2 aggregators came"));
}

// Of two workers and two aggregators, a run that goes on without a worker.
class MembershipAggregatorRecoveryTest : public ::testing::Test {
 protected:
  MembershipAggregatorRecoveryTest() {
    for (const int rank : {0, 1}) {
      const int session = kWorker + rank;
      membership_.OnHello(SessionId(session), TestHello(session, {rank}), now_);
    }
    for (const int share : {0, 1}) {
      const int session = kAggregator + share;
      membership_.OnOffer(SessionId(session),
                          TestOffer(session, absl::StrCat("10.10.1.", session, ":1")), now_);
    }
  }
  static MembershipConfig Config() {
    MembershipConfig config;
    config.world_size = 2;
    config.aggregators = 2;
    config.recover = true;
    return config;
  }

  Outcome Broke(int session) {
    return membership_.OnStreamClosed(SessionId(session), "it broke", now_);
  }
  Outcome LastReady(int session) {
    v1::Ready ready;
    ready.set_generation(1);
    ready.set_last(true);
    return membership_.OnReady(SessionId(session), ready, now_);
  }

  absl::Time now_ = absl::FromUnixSeconds(1000);
  Membership membership_{Config(), now_};
};

TEST_F(MembershipAggregatorRecoveryTest, Loss_OfAWorker_AggregatorsGetTheNewViewWithTheirShares) {
  const auto views = All<SendView>(Broke(kWorker));
  ASSERT_EQ(views.size(), 3u);
  EXPECT_THAT(views[0].view.OwnRanks(), ElementsAre(Rank(0), Rank(1)));
  for (const int share : {0, 1}) {
    const SendView& sent = views[1 + share];
    EXPECT_EQ(sent.session, SessionId(kAggregator + share));
    EXPECT_EQ(sent.view.aggregator, share);
    EXPECT_EQ(sent.view.generation, Generation(2));
    EXPECT_THAT(sent.view.aggregators, ElementsAre("10.10.1.11:1", "10.10.1.12:1"));
  }
}

TEST_F(MembershipAggregatorRecoveryTest, Loss_OfAnAggregator_EndsTheRun) {
  EXPECT_EQ(All<EndRun>(Broke(kAggregator)).at(0).status,
            absl::AbortedError("aggregator 0 (10.10.1.11:1) was lost in step 0: it broke"));
}

TEST_F(MembershipAggregatorRecoveryTest, Loss_OfAnAggregatorAfterTheLastStep_NobodyNeedsIt) {
  for (const int rank : {0, 1}) LastReady(kWorker + rank);
  const Outcome outcome = Broke(kAggregator);
  EXPECT_THAT(All<EndRun>(outcome), IsEmpty());
  EXPECT_THAT(All<SendView>(outcome), IsEmpty());
  EXPECT_EQ(outcome.why, "aggregator 0 (10.10.1.11:1) was lost after the last step: it broke");
}

TEST_F(MembershipAggregatorRecoveryTest, Status_AnAggregatorWasLost_ItIsNotCounted) {
  for (const int rank : {0, 1}) LastReady(kWorker + rank);
  Broke(kAggregator);
  EXPECT_EQ(
      membership_.Status().reason(),
      "2 of 2 workers and 1 of 2 aggregators are present: aggregator 0 (10.10.1.11:1) was lost "
      "after the last step");
}

}  // namespace
}  // namespace gradwire
