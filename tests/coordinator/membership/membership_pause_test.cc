#include "tests/coordinator/membership/membership_fixture.h"

namespace gradwire {
namespace {

using ::gradwire::testing::All;
using ::gradwire::testing::TestHello;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kTimeout = absl::Seconds(60);

// Of 3 ranks on 3 workers, of which it needs 2 or all.
class MembershipPauseTest : public testing::MembershipFixture {
 protected:
  explicit MembershipPauseTest(int min_workers = 3)
      : MembershipFixture(PausingConfig(min_workers)) {
    Form();
  }
  static MembershipConfig PausingConfig(int min_workers) {
    MembershipConfig config = Config();
    config.recover = true;
    config.min_workers = min_workers;
    config.pause_timeout = kTimeout;
    config.lease = absl::Seconds(2);
    return config;
  }
  Outcome Hear(int session) { return membership_.OnHeartbeat(SessionId(session), {}, now_); }
  Outcome Ready(int session, uint64_t step, uint64_t generation = 1) {
    v1::Ready ready;
    ready.set_step(step);
    ready.set_generation(generation);
    return membership_.OnReady(SessionId(session), ready, now_);
  }
  // All that happens while only these are heard.
  Outcome Pass(absl::Duration duration, const std::vector<int>& heard) {
    Outcome all;
    const absl::Time end = now_ + duration;
    while (now_ < end) {
      now_ += absl::Milliseconds(100);
      for (const int session : heard) Add(Hear(session), &all);
      Add(membership_.OnTick(now_), &all);
    }
    return all;
  }
  static void Add(const Outcome& outcome, Outcome* all) {
    all->actions.insert(all->actions.end(), outcome.actions.begin(), outcome.actions.end());
    if (!outcome.why.empty()) all->Say(outcome.why);
  }
  std::string State() const { return membership_.Status().state(); }
};

TEST_F(MembershipPauseTest, OneIsSilent_AllAreToldAndNobodyIsLost) {
  const Outcome outcome = Pass(absl::Seconds(3), {1, 3});
  const std::vector<PauseRun> paused = All<PauseRun>(outcome);
  ASSERT_THAT(paused, SizeIs(1));
  EXPECT_EQ(paused[0].step, Step(0));
  EXPECT_EQ(paused[0].workers, 2);
  EXPECT_EQ(
      paused[0].reason,
      "rank 1 (10.10.1.2:2) is not heard: it was silent for 2 s; 2 workers are left, expected 3 "
      "or more to go on; the run is paused, and ends in 60 s unless one comes back");
  EXPECT_THAT(All<SendPaused>(outcome), SizeIs(3));
  EXPECT_THAT(All<TellLoss>(outcome), IsEmpty());
  EXPECT_THAT(All<EndRun>(outcome), IsEmpty());
  EXPECT_EQ(State(), "paused");
  EXPECT_EQ(membership_.Status().reason(), paused[0].reason);
}

TEST_F(MembershipPauseTest, HeardAgain_GoesOnFromTheOpenStepWithTheSameRanks) {
  for (int session = 1; session <= 3; ++session) Ready(session, 0);
  Pass(absl::Seconds(3), {1, 3});
  const Outcome outcome = Hear(2);
  EXPECT_THAT(All<FormRun>(outcome), SizeIs(1));
  const std::vector<SendView> views = All<SendView>(outcome);
  ASSERT_THAT(views, SizeIs(3));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(views[rank].view.generation, Generation(2));
    EXPECT_EQ(views[rank].view.first_step, Step(1));
    EXPECT_THAT(views[rank].view.OwnRanks(), ElementsAre(Rank(rank)));
  }
  EXPECT_EQ(State(), "running");
  EXPECT_THAT(Pass(2 * kTimeout, {1, 2, 3}).actions, IsEmpty());
}

TEST_F(MembershipPauseTest, WhatBelongsToTheStepThatIsDoneAgain_IsPassedOver) {
  Ready(2, 0);
  Pass(absl::Seconds(3), {1, 3});
  EXPECT_THAT(Ready(1, 0).actions, IsEmpty());
  EXPECT_THAT(Ready(3, 0).actions, IsEmpty());
  EXPECT_THAT(Suspect(1, 2).actions, IsEmpty());
  EXPECT_THAT(Pass(absl::Seconds(5), {1, 3}).actions, IsEmpty());
  Hear(2);
  EXPECT_THAT(Ready(1, 0, 2).actions, IsEmpty());
  EXPECT_THAT(Ready(2, 0, 2).actions, IsEmpty());
  EXPECT_THAT(All<SendSealed>(Ready(3, 0, 2)), SizeIs(3));
}

TEST_F(MembershipPauseTest, NobodyComesBack_EndsAfterTheTimeoutAndTellsOfTheLoss) {
  Pass(absl::Seconds(3), {1, 3});
  EXPECT_THAT(All<EndRun>(Pass(kTimeout - absl::Seconds(2), {1, 3})), IsEmpty());
  const Outcome outcome = Pass(absl::Seconds(2), {1, 3});
  ASSERT_THAT(All<EndRun>(outcome), SizeIs(1));
  EXPECT_EQ(
      All<EndRun>(outcome)[0].status.message(),
      "the run was paused for 60 s, and nobody came back: rank 1 (10.10.1.2:2) is not heard: it "
      "was silent for 2 s; 2 workers are left, expected 3 or more to go on");
  EXPECT_THAT(All<SendAbort>(outcome), SizeIs(3));
  ASSERT_THAT(All<TellLoss>(outcome), SizeIs(1));
  EXPECT_THAT(All<TellLoss>(outcome)[0].ranks, ElementsAre(Rank(1)));
  EXPECT_EQ(State(), "aborted");
}

TEST_F(MembershipPauseTest, OneIsGone_IsTheLossThatItIsAndTheRestWaitForTheTimeout) {
  const Outcome outcome = Broke(2);
  EXPECT_THAT(All<TellLoss>(outcome), SizeIs(1));
  EXPECT_THAT(All<SendPaused>(outcome), SizeIs(2));
  EXPECT_THAT(All<EndRun>(outcome), IsEmpty());
  EXPECT_THAT(outcome.why, HasSubstr("rank 1 (10.10.1.2:2) was lost in step 0: its session stream "
                                     "broke; 2 workers are left, expected 3 or more to go on"));
  EXPECT_THAT(All<EndRun>(Pass(kTimeout + absl::Seconds(1), {1, 3})), SizeIs(1));
}

TEST_F(MembershipPauseTest, AnotherWorkerComes_IsRefused) {
  Broke(2);
  const Outcome outcome = membership_.OnHello(SessionId(4), TestHello(4, {1}), now_);
  EXPECT_THAT(testing::Refusal(outcome).message(), HasSubstr("the run is paused"));
}

TEST_F(MembershipPauseTest, AllGoWhileItWaits_EndsAtOnce) {
  Broke(2);
  EXPECT_THAT(All<EndRun>(Broke(1)), IsEmpty());
  EXPECT_THAT(All<EndRun>(Broke(3)), SizeIs(1));
}

TEST_F(MembershipPauseTest, TheAwaitedIsGone_SaysSo) {
  Pass(absl::Seconds(3), {1, 3});
  const Outcome outcome = Broke(2);
  EXPECT_THAT(All<TellLoss>(outcome), SizeIs(1));
  EXPECT_THAT(membership_.Status().reason(), HasSubstr("its session stream broke"));
  EXPECT_THAT(membership_.Status().reason(), HasSubstr("ends in 59"));
}

TEST_F(MembershipPauseTest, TwoAreSilent_BothAreWaitedFor) {
  EXPECT_THAT(All<PauseRun>(Pass(absl::Seconds(3), {1})), SizeIs(2));
  EXPECT_THAT(All<SendView>(Hear(3)), IsEmpty());
  EXPECT_THAT(All<SendView>(Hear(2)), SizeIs(3));
}

TEST_F(MembershipPauseTest, AfterTheLastStep_NobodyIsWaitedFor) {
  for (int session = 1; session <= 3; ++session) {
    v1::Ready ready;
    ready.set_generation(1);
    ready.set_last(true);
    membership_.OnReady(SessionId(session), ready, now_);
  }
  Broke(2);
  EXPECT_EQ(State(), "running");
  Leave(1, true, "");
  EXPECT_THAT(All<EndRun>(Leave(3, true, "")), SizeIs(1));
  EXPECT_EQ(State(), "finished");
}

class MembershipPauseOfTwoTest : public MembershipPauseTest {
 protected:
  MembershipPauseOfTwoTest() : MembershipPauseTest(2) {}
};

TEST_F(MembershipPauseOfTwoTest, EnoughAreLeft_GoOnAtOnce) {
  const Outcome outcome = Pass(absl::Seconds(3), {1, 3});
  EXPECT_THAT(All<PauseRun>(outcome), IsEmpty());
  EXPECT_THAT(All<SendView>(outcome), SizeIs(2));
}

TEST_F(MembershipPauseOfTwoTest, OneOfTwoComesBack_TheOtherOnesRanksAreCarriedOn) {
  Broke(2);
  EXPECT_THAT(All<PauseRun>(Pass(absl::Seconds(3), {1})), SizeIs(1));
  const Outcome outcome = Hear(3);
  EXPECT_THAT(All<TellLoss>(outcome), IsEmpty());
  ASSERT_THAT(All<SendView>(outcome), SizeIs(2));
  EXPECT_THAT(All<SendView>(outcome)[1].view.OwnRanks(), ElementsAre(Rank(1), Rank(2)));
}

}  // namespace
}  // namespace gradwire
