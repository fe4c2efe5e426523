#include "tests/coordinator/membership/membership_fixture.h"

namespace gradwire {
namespace {

using ::gradwire::testing::All;
using ::gradwire::testing::TestHello;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr absl::Duration kTimeout = absl::Seconds(60);

// Of 3 ranks on 3 workers, of which it needs 2 or all; step 0 is sealed if all are ready.
class MembershipPauseTest : public testing::MembershipFixture {
 protected:
  explicit MembershipPauseTest(int min_workers = 3, absl::Duration lease = absl::Seconds(2),
                               const std::vector<int>& ready = {1, 2, 3})
      : MembershipFixture(PausingConfig(min_workers, lease)) {
    Form();
    for (const int session : ready) Ready(session, 0);
  }
  static MembershipConfig PausingConfig(int min_workers, absl::Duration lease) {
    MembershipConfig config = Config();
    config.recover = true;
    config.min_workers = min_workers;
    config.pause_timeout = kTimeout;
    config.lease = lease;
    return config;
  }
  Outcome Hear(int session) { return membership_.OnHeartbeat(SessionId(session), {}, now_); }
  Outcome Ready(int session, uint64_t step, uint64_t generation = 1) {
    v1::Ready ready;
    ready.set_step(step);
    ready.set_generation(generation);
    return membership_.OnReady(SessionId(session), ready, now_);
  }
  Outcome Misses(int session, int other) {
    v1::Suspect suspect;
    suspect.set_incarnation(other);
    suspect.set_generation(1);
    suspect.set_cause("no answer");
    return membership_.OnSuspect(SessionId(session), suspect, now_);
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
  // Each rank has done a step, so the coordinator knows how long one takes.
  void TellOfAStep() {
    for (int session = 1; session <= 3; ++session) StepsDone(session, 1);
  }
  Outcome TellWork(int session, bool waits, absl::Duration since) {
    v1::Heartbeat heartbeat;
    heartbeat.mutable_work()->set_step(1);
    heartbeat.mutable_work()->set_phase(waits ? "wait" : "backward");
    heartbeat.mutable_work()->set_waits(waits);
    heartbeat.mutable_work()->set_seconds(absl::ToDoubleSeconds(since));
    return membership_.OnHeartbeat(SessionId(session), heartbeat, now_);
  }
  std::string State() const { return membership_.Status().state(); }
  std::string Reason() const { return membership_.Status().reason(); }
};

TEST_F(MembershipPauseTest, OneIsSilent_AllAreToldAndNobodyIsLost) {
  const Outcome outcome = Pass(absl::Seconds(3), {1, 3});
  const std::vector<PauseRun> paused = All<PauseRun>(outcome);
  ASSERT_THAT(paused, SizeIs(1));
  EXPECT_EQ(paused[0].step, Step(1));
  EXPECT_EQ(paused[0].workers, 2);
  EXPECT_EQ(
      paused[0].reason,
      "rank 1 (10.10.1.2:2) is not heard: it was silent for 2 s; 2 workers are left, expected "
      "3 or more to go on; the run is paused for 60 s, or until this one is heard again");
  EXPECT_THAT(All<SendPaused>(outcome), SizeIs(3));
  EXPECT_THAT(All<TellLoss>(outcome), IsEmpty());
  EXPECT_THAT(All<EndRun>(outcome), IsEmpty());
  EXPECT_EQ(State(), "paused");
  EXPECT_EQ(Reason(), paused[0].reason);
  EXPECT_EQ(membership_.Status().ranks(1).state(), "silent");
}

TEST_F(MembershipPauseTest, HeardAgain_GoesOnFromTheOpenStepWithTheSameRanks) {
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

// Of 4 workers, all needed, two are suspected at the same time: one is silent, the other beats on.
TEST_F(MembershipPauseTest, TwoAreSuspected_TheFirstPausesTheRun_TheOtherIsNotJudgedMeanwhile) {
  MembershipConfig config = PausingConfig(4, absl::Seconds(10));
  config.world_size = 4;
  Membership four(config, now_);
  const auto pass = [&](int ticks, const std::vector<int>& heard) {
    Outcome all;
    for (int i = 0; i < ticks; ++i) {
      now_ += absl::Milliseconds(100);
      for (const int session : heard) Add(four.OnHeartbeat(SessionId(session), {}, now_), &all);
      Add(four.OnTick(now_), &all);
    }
    return all;
  };
  for (const int session : {1, 2, 3, 4}) {
    four.OnHello(SessionId(session), TestHello(session, {session - 1}), now_);
  }
  v1::Ready ready;
  ready.set_generation(1);
  for (const int session : {1, 2, 3, 4}) four.OnReady(SessionId(session), ready, now_);
  pass(1, {1, 2, 3, 4});
  v1::Suspect suspect;
  suspect.set_generation(1);
  suspect.set_step(1);
  suspect.set_cause("no answer");
  for (const auto& [session, other] : {std::make_pair(1, 2), std::make_pair(3, 4)}) {
    now_ += absl::Milliseconds(50);
    suspect.set_incarnation(other);
    four.OnSuspect(SessionId(session), suspect, now_);
  }
  const Outcome judged = pass(12, {1, 3, 4});
  EXPECT_EQ(four.Status().state(), "paused") << judged.why;
  EXPECT_THAT(All<CloseSession>(judged), IsEmpty());
  const Outcome heard = four.OnHeartbeat(SessionId(2), {}, now_);
  EXPECT_THAT(All<SendView>(heard), SizeIs(4));
  EXPECT_EQ(four.Status().state(), "running");
}

TEST_F(MembershipPauseTest, WhatBelongsToTheStepThatIsDoneAgain_IsPassedOver) {
  Ready(2, 1);
  Pass(absl::Seconds(3), {1, 3});
  EXPECT_THAT(Ready(1, 1).actions, IsEmpty());
  EXPECT_THAT(Ready(3, 1).actions, IsEmpty());
  EXPECT_THAT(Misses(1, 3).actions, IsEmpty());
  EXPECT_THAT(Pass(absl::Seconds(5), {1, 3}).actions, IsEmpty());
  Hear(2);
  EXPECT_THAT(Ready(1, 1, 2).actions, IsEmpty());
  EXPECT_THAT(Ready(2, 1, 2).actions, IsEmpty());
  EXPECT_THAT(All<SendSealed>(Ready(3, 1, 2)), SizeIs(3));
}

TEST_F(MembershipPauseTest, NobodyComesBack_EndsAfterTheTimeoutAndTellsOfTheLoss) {
  Pass(absl::Seconds(3), {1, 3});
  EXPECT_THAT(All<EndRun>(Pass(kTimeout - absl::Seconds(2), {1, 3})), IsEmpty());
  const Outcome outcome = Pass(absl::Seconds(2), {1, 3});
  ASSERT_THAT(All<EndRun>(outcome), SizeIs(1));
  EXPECT_EQ(All<EndRun>(outcome)[0].status.message(),
            "the run was paused for 60 s, and not all workers came back: rank 1 (10.10.1.2:2) is "
            "not heard: "
            "it was silent for 2 s");
  EXPECT_THAT(All<SendAbort>(outcome), SizeIs(3));
  ASSERT_THAT(All<TellLoss>(outcome), SizeIs(1));
  EXPECT_THAT(All<TellLoss>(outcome)[0].ranks, ElementsAre(Rank(1)));
  EXPECT_EQ(State(), "aborted");
  EXPECT_THAT(Pass(kTimeout, {}).actions, IsEmpty());
}

TEST_F(MembershipPauseTest, CoordinatorItselfStoodStill_WaitsForSoMuchLonger) {
  Pass(absl::Seconds(3), {1, 3});
  now_ += kTimeout;
  EXPECT_THAT(Pass(absl::Seconds(30), {1, 3}).actions, IsEmpty());
  EXPECT_THAT(All<SendView>(Hear(2)), SizeIs(3));
}

TEST_F(MembershipPauseTest, OneIsGone_IsTheLossThatItIsAndTheRestWaitForTheTimeout) {
  const Outcome outcome = Broke(2);
  EXPECT_THAT(All<TellLoss>(outcome), SizeIs(1));
  EXPECT_THAT(All<SendPaused>(outcome), SizeIs(2));
  EXPECT_THAT(All<EndRun>(outcome), IsEmpty());
  EXPECT_EQ(
      outcome.why,
      "rank 1 (10.10.1.2:2) was lost: its session stream broke; 2 workers are left, expected 3 "
      "or more to go on; the run is paused for 60 s");
  EXPECT_EQ(membership_.Status().ranks(1).state(), "lost");
  EXPECT_THAT(All<EndRun>(Pass(kTimeout + absl::Seconds(1), {1, 3})), SizeIs(1));
}

TEST_F(MembershipPauseTest, HeardAgain_NobodyIsNamedForWhatItDidMeanwhile) {
  TellOfAStep();
  Pass(absl::Seconds(10), {1, 3});
  Hear(2);
  for (const int session : {1, 2, 3}) TellWork(session, session != 3, absl::Seconds(8));
  now_ += absl::Milliseconds(100);
  EXPECT_THAT(membership_.OnTick(now_).actions, IsEmpty());
}

TEST_F(MembershipPauseTest, WhileItWaits_NobodyIsNamedForTheStepThatIsBrokenOff) {
  TellOfAStep();
  Pass(absl::Seconds(3), {1, 3});
  for (const int session : {1, 3}) TellWork(session, session == 1, absl::Seconds(8));
  now_ += absl::Milliseconds(100);
  const Outcome outcome = membership_.OnTick(now_);
  EXPECT_EQ(State(), "paused");
  EXPECT_THAT(All<TellStraggler>(outcome), IsEmpty());
}

TEST_F(MembershipPauseTest, Leaves_IsALossAlsoIfItSaysThatItHasFinished) {
  Pass(absl::Seconds(3), {1, 3});
  EXPECT_THAT(Leave(1, true, "").why, HasSubstr("it left: the last step is not sealed yet"));
  EXPECT_THAT(All<EndRun>(Leave(3, true, "")), IsEmpty());
  EXPECT_THAT(All<EndRun>(Broke(2)), SizeIs(1));
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
  EXPECT_THAT(All<TellLoss>(Broke(2)), SizeIs(1));
  EXPECT_THAT(Reason(), HasSubstr("its session stream broke"));
  EXPECT_THAT(Reason(), EndsWith("the run is paused for 60 s"));
}

// Who is gone cannot be heard again, so the pause lasts whatever the silent one does.
TEST_F(MembershipPauseTest, OneIsGoneAndALaterOneSilent_PromisesNoEarlierEnd) {
  Broke(2);
  EXPECT_THAT(All<PauseRun>(Pass(absl::Seconds(3), {1})), SizeIs(1));
  EXPECT_THAT(Reason(), HasSubstr("rank 2 (10.10.1.2:3) is not heard"));
  EXPECT_THAT(Reason(), EndsWith("the run is paused for 60 s"));
}

TEST_F(MembershipPauseTest, TwoAreSilent_BothAreWaitedFor) {
  EXPECT_THAT(All<PauseRun>(Pass(absl::Seconds(3), {1})), SizeIs(2));
  EXPECT_EQ(Reason(),
            "rank 1 (10.10.1.2:2) is not heard: it was silent for 2 s; rank 2 (10.10.1.2:3) is not "
            "heard: it was silent for 2 s; 1 worker is left, expected 3 or more to go on; the run "
            "is paused for 60 s, or until these are heard again");
  const Outcome one = Hear(3);
  EXPECT_THAT(All<SendView>(one), IsEmpty());
  ASSERT_THAT(All<PauseRun>(one), SizeIs(1));
  EXPECT_EQ(All<PauseRun>(one)[0].workers, 2);
  EXPECT_THAT(Reason(), Not(HasSubstr("rank 2")));
  EXPECT_THAT(All<SendView>(Hear(2)), SizeIs(3));
}

TEST_F(MembershipPauseTest, TwoAreSilentUntilTheEnd_BothAreLost) {
  Pass(absl::Seconds(3), {1});
  const std::vector<TellLoss> losses = All<TellLoss>(Pass(kTimeout, {1}));
  ASSERT_THAT(losses, SizeIs(2));
  EXPECT_THAT(losses[0].ranks, ElementsAre(Rank(1)));
  EXPECT_THAT(losses[1].ranks, ElementsAre(Rank(2)));
}

TEST_F(MembershipPauseTest, OneIsGoneAndAnotherSilentUntilTheEnd_EachLossIsToldOnce) {
  EXPECT_THAT(All<TellLoss>(Broke(2)), SizeIs(1));
  const std::vector<TellLoss> losses = All<TellLoss>(Pass(kTimeout + absl::Seconds(3), {1}));
  ASSERT_THAT(losses, SizeIs(1));
  EXPECT_THAT(losses[0].ranks, ElementsAre(Rank(2)));
  EXPECT_EQ(losses[0].cause, "it was silent until the end of a pause");
}

TEST_F(MembershipPauseTest, AnotherIsSilentLater_EndsAtTheTimeoutOfTheFirst) {
  Pass(absl::Seconds(3), {1, 3});
  EXPECT_THAT(All<PauseRun>(Pass(kTimeout / 2, {1})), SizeIs(1));
  EXPECT_THAT(All<EndRun>(Pass(kTimeout / 2 - absl::Seconds(2), {1})), IsEmpty());
  EXPECT_THAT(All<EndRun>(Pass(absl::Seconds(2), {1})), SizeIs(1));
}

TEST_F(MembershipPauseTest, AnotherIsGoneLater_EndsAtTheTimeoutOfTheFirst) {
  Pass(absl::Seconds(3), {1, 3});
  Pass(kTimeout / 2, {1, 3});
  EXPECT_THAT(All<PauseRun>(Broke(3)), SizeIs(1));
  EXPECT_THAT(All<EndRun>(Pass(kTimeout / 2, {1})), SizeIs(1));
}

TEST_F(MembershipPauseTest, PausedAgain_WaitsForAWholeTimeout) {
  Pass(absl::Seconds(3), {1, 3});
  Pass(kTimeout / 2, {1, 3});
  EXPECT_THAT(All<SendView>(Hear(2)), SizeIs(3));
  EXPECT_THAT(All<PauseRun>(Pass(absl::Seconds(3), {1, 3})), SizeIs(1));
  EXPECT_THAT(All<EndRun>(Pass(kTimeout - absl::Seconds(2), {1, 3})), IsEmpty());
  EXPECT_THAT(All<EndRun>(Pass(absl::Seconds(2), {1, 3})), SizeIs(1));
}

TEST_F(MembershipPauseTest, AfterTheLastStep_NobodyIsWaitedFor) {
  for (int session = 1; session <= 3; ++session) {
    v1::Ready ready;
    ready.set_step(1);
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

// With the usual leases: 10 s until the gaps between its heartbeats are known, then 1 s.
class MembershipPauseLeaseTest : public MembershipPauseTest {
 protected:
  MembershipPauseLeaseTest() : MembershipPauseTest(3, absl::Seconds(10)) {}
};

TEST_F(MembershipPauseLeaseTest, HeardAgain_ItsSilenceMakesItsLeaseNoLonger) {
  Pass(absl::Seconds(3), {1, 2, 3});
  EXPECT_THAT(All<PauseRun>(Pass(absl::Seconds(5), {1, 3})), SizeIs(1));
  EXPECT_THAT(All<SendView>(Pass(absl::Seconds(1), {1, 2, 3})), SizeIs(3));
  EXPECT_THAT(All<PauseRun>(Pass(absl::Seconds(1.5), {1, 3})), SizeIs(1));
}

TEST_F(MembershipPauseLeaseTest, SuspectedAndSilent_IsAwaited) {
  now_ += absl::Milliseconds(100);
  Misses(1, 2);
  const Outcome outcome = Pass(absl::Seconds(1.5), {1, 3});
  EXPECT_THAT(All<PauseRun>(outcome), SizeIs(1));
  EXPECT_THAT(All<TellLoss>(outcome), IsEmpty());
  EXPECT_THAT(All<SendView>(Hear(2)), SizeIs(3));
}

TEST_F(MembershipPauseLeaseTest, SuspectedAndHeard_IsLost) {
  Misses(1, 2);
  const Outcome outcome = Pass(absl::Seconds(1.5), {1, 2, 3});
  EXPECT_THAT(All<PauseRun>(outcome), SizeIs(1));
  EXPECT_THAT(All<TellLoss>(outcome), SizeIs(1));
  ASSERT_THAT(All<SendAbort>(outcome), SizeIs(1));
  EXPECT_THAT(All<SendAbort>(outcome)[0].reason, EndsWith("; the run waits without this worker"));
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

// A program that has no steps to seal would not break one off.
TEST(MembershipPause, NobodySeals_ALossEndsTheRun) {
  MembershipConfig config;
  config.world_size = 3;
  config.recover = true;
  config.min_workers = 3;
  config.pause_timeout = kTimeout;
  const absl::Time now = absl::UnixEpoch();
  Membership membership(config, now);
  for (const int session : {1, 2, 3}) {
    membership.OnHello(SessionId(session), TestHello(session, {session - 1}), now);
  }
  EXPECT_THAT(All<EndRun>(membership.OnStreamClosed(SessionId(2), "it broke", now)), SizeIs(1));
}

class MembershipPauseBeforeASealTest : public MembershipPauseTest {
 protected:
  MembershipPauseBeforeASealTest() : MembershipPauseTest(3, absl::Seconds(2), {1, 3}) {}
};

TEST_F(MembershipPauseBeforeASealTest, SilentAgainInTheFirstStep_IsAwaitedAsWell) {
  EXPECT_THAT(All<SendPaused>(Pass(absl::Seconds(3), {1, 3})), SizeIs(3));
  EXPECT_THAT(All<SendView>(Hear(2)), SizeIs(3));  // and nobody is ready
  const Outcome outcome = Pass(absl::Seconds(3), {1, 3});
  EXPECT_THAT(All<SendPaused>(outcome), SizeIs(3));
  EXPECT_THAT(All<EndRun>(outcome), IsEmpty());
}

}  // namespace
}  // namespace gradwire
