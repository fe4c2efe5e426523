// What time, suspicion and a signal do to a run.
#include "tests/coordinator/membership/membership_fixture.h"

namespace gradwire {
namespace {

using ::gradwire::testing::All;
using ::gradwire::testing::Refusal;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using MembershipTimeTest = testing::MembershipFixture;

// Of a run that goes on without who is lost.
class MembershipLeaseTest : public testing::MembershipFixture {
 protected:
  MembershipLeaseTest() : MembershipFixture(RecoveringConfig()) {}

 private:
  static MembershipConfig RecoveringConfig() {
    MembershipConfig config = Config();
    config.recover = true;
    return config;
  }
};

TEST_F(MembershipTimeTest, OnSuspect_Unexplained_LosesTheSuspectAfterOneSecond) {
  Form();
  StepsDone(3, 7);
  EXPECT_THAT(Suspect(1, 2).actions, IsEmpty());
  EXPECT_THAT(Pass(absl::Milliseconds(900)).actions, IsEmpty());
  const Outcome outcome = Pass(absl::Milliseconds(100));
  EXPECT_EQ(All<EndRun>(outcome).at(0).status,
            absl::AbortedError("rank 2 (10.10.1.2:3) was lost in step 7: rank 0 got no answer "
                               "from it: connection reset"));
  EXPECT_EQ(All<SendAbort>(outcome).size(), 3);
}

TEST_F(MembershipTimeTest, OnSuspect_ThenTheSuspectsLoss_GivesTheLossAsCause) {
  Form();
  Suspect(1, 2);
  Pass(absl::Milliseconds(500));
  EXPECT_EQ(
      All<EndRun>(Broke(3)).at(0).status,
      absl::AbortedError("rank 2 (10.10.1.2:3) was lost in step 0: its session stream broke"));
}

TEST_F(MembershipTimeTest, OnSuspect_ThenTheCoordinatorStandsStill_WaitsForAnotherCause) {
  Form();
  Suspect(1, 2);
  now_ += absl::Seconds(12);
  EXPECT_THAT(membership_.OnTick(now_).actions, IsEmpty());
  EXPECT_EQ(
      All<EndRun>(Broke(2)).at(0).status,
      absl::AbortedError("rank 1 (10.10.1.2:2) was lost in step 0: its session stream broke"));
}

TEST_F(MembershipTimeTest, OnSuspect_OfEachOther_LosesWhoJoinedLast) {
  Form();
  Suspect(1, 2);
  Suspect(3, 0);
  EXPECT_THAT(Pass(absl::Seconds(2)).why, HasSubstr("rank 2 (10.10.1.2:3) was lost"));
}

TEST_F(MembershipTimeTest, OnSuspect_BySomebodyWhomAnotherOneSuspects_LosesThatOne) {
  Form();
  Suspect(1, 2);
  Suspect(2, 0);
  EXPECT_EQ(All<EndRun>(Pass(absl::Seconds(2))).at(0).status,
            absl::AbortedError("rank 0 (10.10.1.2:1) was lost in step 0: it got no answer from "
                               "rank 2: connection reset"));
}

TEST_F(MembershipTimeTest, OnSuspect_IsLogged) {
  Form();
  EXPECT_EQ(Suspect(1, 2).why,
            "rank 0 (10.10.1.2:1) suspects rank 2 (10.10.1.2:3) in step 7: connection reset");
}

TEST_F(MembershipTimeTest, OnSuspect_OfNoWorker_LosesTheSender) {
  Form();
  EXPECT_THAT(Suspect(1, 3).why,
              HasSubstr("it broke the protocol: Suspect of 4, which is no worker"));
}

TEST_F(MembershipTimeTest, OnTick_SilentWorkerMidRun_IsLostAfterItsLease) {
  Form();
  EXPECT_THAT(Pass(absl::Seconds(10), {1, 3}).actions, IsEmpty());
  const Outcome outcome = Pass(absl::Milliseconds(100), {1, 3});
  EXPECT_EQ(All<EndRun>(outcome).at(0).status,
            absl::AbortedError("rank 1 (10.10.1.2:2) was lost in step 0: it was silent for 10 s"));
  EXPECT_EQ(All<CloseSession>(outcome).size(), 3);
}

TEST_F(MembershipTimeTest, OnTick_LossWouldEndTheRun_WaitsForTheWholeLease) {
  Form();
  Pass(absl::Seconds(15), {1, 2, 3});
  EXPECT_THAT(Pass(absl::Seconds(10), {1, 3}).actions, IsEmpty());
  EXPECT_EQ(All<EndRun>(Pass(absl::Milliseconds(100), {1, 3})).at(0).status,
            absl::AbortedError("rank 1 (10.10.1.2:2) was lost in step 0: it was silent for 10 s"));
}

TEST_F(MembershipLeaseTest, OnTick_WorkerThatWasHeardOften_IsMissedSoon) {
  Form();
  EXPECT_THAT(Pass(absl::Seconds(3), {1, 2, 3}).actions, IsEmpty());
  EXPECT_THAT(Pass(absl::Seconds(1), {1, 3}).actions, IsEmpty());
  EXPECT_THAT(Pass(absl::Milliseconds(100), {1, 3}).why,
              HasSubstr("rank 1 (10.10.1.2:2) was lost in step 0: it was silent for 1 s"));
}

TEST_F(MembershipLeaseTest, OnTick_WorkerWithLongGaps_HasALongerLease) {
  Form();
  for (int i = 0; i < 25; ++i) {
    EXPECT_THAT(Pass(absl::Milliseconds(400), {1, 3}).actions, IsEmpty());
    Pass(absl::Milliseconds(100), {1, 2, 3});
  }
  // Eight times its half second.
  EXPECT_THAT(Pass(absl::Seconds(4), {1, 3}).actions, IsEmpty());
  EXPECT_THAT(Pass(absl::Milliseconds(100), {1, 3}).why,
              HasSubstr("rank 1 (10.10.1.2:2) was lost in step 0: it was silent for 4 s"));
}

TEST_F(MembershipLeaseTest, OnTick_CoordinatorIsLate_AllHaveLongerLeases) {
  Form();
  Pass(absl::Seconds(15), {1, 2, 3});
  now_ += absl::Milliseconds(900);  // in place of 100; not long enough to be a pause
  EXPECT_THAT(Pass(absl::Milliseconds(100), {1, 2, 3}).actions, IsEmpty());
  EXPECT_THAT(Pass(absl::Seconds(3.6), {1, 3}).actions, IsEmpty());
  EXPECT_THAT(Pass(absl::Milliseconds(100), {1, 3}).why,
              HasSubstr("rank 1 (10.10.1.2:2) was lost"));
}

TEST_F(MembershipTimeTest, OnTick_SilentWorkerBeforeTheView_LosesItsPlace) {
  Hello(1, {0});
  Hello(2, {1});
  const Outcome outcome = Pass(absl::Seconds(11), {1});
  EXPECT_EQ(Refusal(outcome), absl::DeadlineExceededError("it was silent for 10 s"));
  EXPECT_THAT(Hello(3, {1}).actions, IsEmpty());
}

TEST_F(MembershipTimeTest, OnTick_StepsInsteadOfHeartbeats_KeepTheLease) {
  Form();
  for (uint64_t step = 1; step <= 5; ++step) {
    EXPECT_THAT(Pass(absl::Seconds(6), {1, 2}).actions, IsEmpty());
    StepsDone(3, step);
  }
}

TEST_F(MembershipTimeTest, OnTick_CoordinatorItselfWasPaused_LosesNobody) {
  Form();
  Pass(absl::Seconds(1), {1, 2, 3});
  now_ += absl::Minutes(5);
  EXPECT_THAT(membership_.OnTick(now_).actions, IsEmpty());
  EXPECT_THAT(Pass(absl::Seconds(9)).actions, IsEmpty());
}

TEST_F(MembershipTimeTest, OnTick_RendezvousTimeout_SaysWhoIsMissing) {
  Hello(1, {1});
  const Outcome outcome = Pass(absl::Seconds(601), {1});
  const std::string reason = "1 of 3 workers came within 600 s; missing ranks 0, 2";
  EXPECT_EQ(All<EndRun>(outcome).at(0).status, absl::DeadlineExceededError(reason));
  EXPECT_EQ(All<SendAbort>(outcome).at(0).reason, reason);
}

TEST_F(MembershipTimeTest, OnTick_RunIsOver_DoesNothingMore) {
  Pass(absl::Seconds(601));
  EXPECT_THAT(Pass(absl::Seconds(5)).actions, IsEmpty());
}

TEST_F(MembershipTimeTest, OnTick_AllWorkersThere_NoRendezvousTimeout) {
  Form();
  EXPECT_THAT(Pass(absl::Seconds(700), {1, 2, 3}).actions, IsEmpty());
}

TEST_F(MembershipTimeTest, OnShutdown_MidRun_TellsAllWorkers) {
  Form();
  const Outcome outcome = membership_.OnShutdown("the coordinator was stopped");
  EXPECT_EQ(All<SendAbort>(outcome).size(), 3);
  EXPECT_EQ(All<CloseSession>(outcome).at(0).status,
            absl::AbortedError("the coordinator was stopped"));
  EXPECT_EQ(All<EndRun>(outcome).at(0).status, absl::AbortedError("the coordinator was stopped"));
}

TEST_F(MembershipTimeTest, OnShutdown_RunIsOver_DoesNothing) {
  Form();
  Broke(1);
  EXPECT_THAT(membership_.OnShutdown("again").actions, IsEmpty());
}

}  // namespace
}  // namespace gradwire
