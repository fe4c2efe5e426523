#include "tests/coordinator/membership/membership_fixture.h"

namespace gradwire {
namespace {

using ::gradwire::testing::All;
using ::gradwire::testing::TestHello;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Of 3 ranks on 3 workers; a run that recovers.
class MembershipRecoveryTest : public testing::MembershipFixture {
 protected:
  static MembershipConfig RecoveringConfig(int min_workers = 1) {
    MembershipConfig config = Config();
    config.recover = true;
    config.min_workers = min_workers;
    return config;
  }
  void Begin(const MembershipConfig& config = RecoveringConfig()) {
    recovering_.emplace(config, now_);
    for (int session = 1; session <= 3; ++session) Hello(TestHello(session, {session - 1}));
  }
  Outcome Hello(const v1::Hello& hello) {
    return recovering_->OnHello(SessionId(hello.incarnation()), hello, now_);
  }
  Outcome Ready(int session, uint64_t step, uint64_t generation = 1, bool last = false) {
    v1::Ready ready;
    ready.set_step(step);
    ready.set_generation(generation);
    ready.set_last(last);
    return recovering_->OnReady(SessionId(session), ready, now_);
  }
  Outcome StepDone(int session, uint64_t step) {
    v1::StepDone done;
    done.set_rank(static_cast<uint32_t>(session - 1));
    done.set_step(step);
    return recovering_->OnStepDone(SessionId(session), done, now_);
  }
  // For step 0, with the digest of a parameter.
  Outcome ReadyWith(int session, uint64_t digest) {
    v1::Ready ready;
    ready.set_generation(1);
    ready.add_digests()->set_digest(digest);
    return recovering_->OnReady(SessionId(session), ready, now_);
  }
  Outcome Broke(int session) {
    return recovering_->OnStreamClosed(SessionId(session), "its session stream broke", now_);
  }
  Outcome Suspect(int session, int suspect_session, uint64_t generation = 1) {
    v1::Suspect suspect;
    suspect.set_incarnation(suspect_session);
    suspect.set_generation(generation);
    suspect.set_cause("connection reset");
    return recovering_->OnSuspect(SessionId(session), suspect, now_);
  }
  Outcome Finished(int session) {
    v1::Leave leave;
    leave.set_finished(true);
    return recovering_->OnLeave(SessionId(session), leave, now_);
  }
  static View ViewOf(const Outcome& outcome, int session) {
    for (const SendView& send : All<SendView>(outcome)) {
      if (send.session == SessionId(session)) return send.view;
    }
    ADD_FAILURE() << "no view for session " << session;
    return {};
  }

  std::optional<Membership> recovering_;
};

TEST_F(MembershipRecoveryTest, FirstView_Seals) {
  recovering_.emplace(RecoveringConfig(), now_);
  Hello(TestHello(1, {0}));
  Hello(TestHello(2, {1}));
  const Outcome outcome = Hello(TestHello(3, {2}));
  EXPECT_TRUE(ViewOf(outcome, 1).seals);
  EXPECT_EQ(ViewOf(outcome, 1).first_step, Step(0));
}

TEST_F(MembershipRecoveryTest, OneWorkerCannot_NothingIsSealedAndALossEndsTheRun) {
  recovering_.emplace(RecoveringConfig(), now_);
  Hello(TestHello(1, {0}));
  v1::Hello hello = TestHello(2, {1});
  hello.set_cannot_recover("it has a model of its own");
  Hello(hello);
  EXPECT_FALSE(ViewOf(Hello(TestHello(3, {2})), 1).seals);
  const Outcome outcome = Broke(3);
  ASSERT_THAT(All<EndRun>(outcome), SizeIs(1));
  EXPECT_EQ(All<EndRun>(outcome)[0].status.message(),
            "rank 2 (10.10.1.2:3) was lost in step 0: its session stream broke; the run cannot go "
            "on without it: it has a model of its own");
}

TEST_F(MembershipRecoveryTest, Ready_OfAll_SealsForAll) {
  Begin();
  EXPECT_THAT(Ready(1, 0).actions, IsEmpty());
  EXPECT_THAT(Ready(3, 0).actions, IsEmpty());
  const std::vector<SendSealed> sealed = All<SendSealed>(Ready(2, 0));
  ASSERT_THAT(sealed, SizeIs(3));
  for (const SendSealed& send : sealed) EXPECT_EQ(send.step, Step(0));
  EXPECT_THAT(Ready(2, 1).actions, IsEmpty());
}

TEST_F(MembershipRecoveryTest, LossBeforeStepDone_IsToldOfTheStepThatIsOpen) {
  Begin();
  for (int session = 1; session <= 3; ++session) Ready(session, 0);
  const Outcome outcome = Broke(2);
  ASSERT_THAT(All<TellLoss>(outcome), SizeIs(1));
  EXPECT_EQ(All<TellLoss>(outcome)[0].step, Step(1));
  EXPECT_THAT(outcome.why, HasSubstr("was lost in step 1"));
}

// It may have been the last step, which no other worker reports for it.
TEST_F(MembershipRecoveryTest, LossBeforeItReportsASealedStep_TheStepCountsForItsRanks) {
  Begin();
  for (int session = 1; session <= 3; ++session) Ready(session, 0);
  for (const int session : {1, 3}) EXPECT_THAT(All<EnterStep>(StepDone(session, 0)), IsEmpty());
  const std::vector<EnterStep> entered = All<EnterStep>(Broke(2));
  ASSERT_THAT(entered, SizeIs(1));
  EXPECT_EQ(entered[0].step, Step(1));
  EXPECT_EQ(recovering_->Status().ranks(1).steps_done(), 1u);
  for (const int session : {1, 3}) Ready(session, 1, 2, /*last=*/true);
  EXPECT_THAT(Finished(3).why, HasSubstr("ranks 1, 2 (10.10.1.2:3) finished after 1 steps"));
}

TEST_F(MembershipRecoveryTest, LossAfterTheLastStep_IsToldOfTheStepThatWouldBeNext) {
  Begin();
  for (int session = 1; session <= 3; ++session) Ready(session, 0);
  for (int session = 1; session <= 3; ++session) StepDone(session, 0);
  for (int session = 1; session <= 3; ++session) Ready(session, 1, 1, /*last=*/true);
  const std::vector<TellLoss> losses = All<TellLoss>(Broke(2));
  ASSERT_THAT(losses, SizeIs(1));
  EXPECT_EQ(losses[0].step, Step(1));
}

TEST_F(MembershipRecoveryTest, Ready_OfAnotherStepOrTwice_IsNonsense) {
  for (const uint64_t wrong : {1, 0}) {
    Begin();
    if (wrong == 0) Ready(1, 0);
    const Outcome outcome = Ready(1, wrong);
    ASSERT_THAT(All<CloseSession>(outcome), SizeIs(1));
    EXPECT_THAT(All<CloseSession>(outcome)[0].status.message(),
                HasSubstr("Ready for step " + std::to_string(wrong) + ", expected 0 once"));
  }
}

TEST_F(MembershipRecoveryTest, Ready_EqualParameters_Seals) {
  Begin();
  ReadyWith(1, 7);
  ReadyWith(2, 7);
  EXPECT_THAT(All<SendSealed>(ReadyWith(3, 7)), SizeIs(3));
}

TEST_F(MembershipRecoveryTest, Ready_OneHasOtherParameters_ItIsLostAndTheStepOpen) {
  Begin();
  ReadyWith(1, 7);
  ReadyWith(2, 8);
  const Outcome outcome = ReadyWith(3, 7);
  EXPECT_THAT(All<SendSealed>(outcome), IsEmpty());
  ASSERT_THAT(All<SendAbort>(outcome), SizeIs(1));
  EXPECT_EQ(All<SendAbort>(outcome)[0].session, SessionId(2));
  EXPECT_THAT(All<SendAbort>(outcome)[0].reason,
              HasSubstr("its parameters differ from the others' after step 0, first in tensor 0"));
  EXPECT_EQ(ViewOf(outcome, 1).first_step, Step(0));
  EXPECT_EQ(ViewOf(outcome, 3).OwnRanks().size() + ViewOf(outcome, 1).OwnRanks().size(), 3u);
}

TEST_F(MembershipRecoveryTest, Ready_AllHaveOtherParameters_EndsTheRun) {
  Begin();
  ReadyWith(1, 7);
  ReadyWith(2, 8);
  const Outcome outcome = ReadyWith(3, 9);
  ASSERT_THAT(All<EndRun>(outcome), SizeIs(1));
  EXPECT_EQ(All<EndRun>(outcome)[0].status.message(),
            "the workers' parameters differ after step 0, first in tensor 0, and no majority says "
            "which are right");
}

TEST_F(MembershipRecoveryTest, Ready_TwoOfFiveHaveOtherParameters_BothAreLost) {
  MembershipConfig config = RecoveringConfig();
  config.world_size = 5;
  recovering_.emplace(config, now_);
  for (int session = 1; session <= 5; ++session) Hello(TestHello(session, {session - 1}));
  ReadyWith(1, 7);
  ReadyWith(2, 8);
  ReadyWith(3, 7);
  ReadyWith(4, 7);
  const Outcome outcome = ReadyWith(5, 9);
  EXPECT_THAT(All<EndRun>(outcome), IsEmpty());
  EXPECT_THAT(All<SendSealed>(outcome), IsEmpty());
  const std::vector<SendAbort> aborts = All<SendAbort>(outcome);
  ASSERT_THAT(aborts, SizeIs(2));
  EXPECT_EQ(aborts[0].session, SessionId(2));
  EXPECT_EQ(aborts[1].session, SessionId(5));
  for (const SendAbort& sent : aborts) {
    EXPECT_THAT(sent.reason, HasSubstr("its parameters differ from the others' after step 0"));
  }
  const View view = All<FormRun>(outcome).back().view;
  EXPECT_EQ(view.members.size(), 3u);
  EXPECT_EQ(view.first_step, Step(0));
}

TEST_F(MembershipRecoveryTest, Loss_OfAWorkerWithTwoRanks_StatusNamesEachCarrierWithItsRank) {
  MembershipConfig config = RecoveringConfig();
  config.world_size = 4;
  config.workers = 3;
  recovering_.emplace(config, now_);
  Hello(TestHello(1, {0}));
  Hello(TestHello(2, {1, 2}));
  Hello(TestHello(3, {3}));
  const Outcome outcome = Broke(2);
  EXPECT_THAT(ViewOf(outcome, 1).OwnRanks(), ElementsAre(Rank(0), Rank(2)));
  EXPECT_THAT(ViewOf(outcome, 3).OwnRanks(), ElementsAre(Rank(1), Rank(3)));
  EXPECT_EQ(recovering_->Status().reason(),
            "2 of 3 workers are present: ranks 1, 2 (10.10.1.2:2) were lost in step 0, and rank 2 "
            "is carried on by the worker of ranks 0, 2; rank 1 is carried on by the worker of "
            "ranks 1, 3");
}

TEST_F(MembershipRecoveryTest, Loss_StatusCountsWhoIsLeftAndNamesWhoCarriesTheRank) {
  Begin();
  EXPECT_EQ(recovering_->Status().reason(), "3 of 3 workers are present");
  for (int session = 1; session <= 3; ++session) Ready(session, 0);
  Broke(2);
  EXPECT_EQ(
      recovering_->Status().reason(),
      "2 of 3 workers are present: rank 1 (10.10.1.2:2) was lost in step 1, and rank 1 is carried "
      "on by the worker of ranks 1, 2");
  Broke(3);
  EXPECT_EQ(
      recovering_->Status().reason(),
      "1 of 3 workers are present: ranks 1, 2 (10.10.1.2:3) were lost in step 1, and ranks 1, 2 "
      "are carried on by the worker of ranks 0, 1, 2");
}

TEST_F(MembershipRecoveryTest, Loss_AfterTheLastStep_StatusCountsWhoIsLeft) {
  Begin();
  for (int session = 1; session <= 3; ++session) Ready(session, 0);
  for (int session = 1; session <= 3; ++session) Ready(session, 1, 1, /*last=*/true);
  Broke(2);
  EXPECT_EQ(recovering_->Status().reason(),
            "2 of 3 workers are present: rank 1 (10.10.1.2:2) was lost after the last step");
}

TEST_F(MembershipRecoveryTest, Ready_WithWhatTheViewCost_IsTold) {
  Begin();
  Broke(2);
  v1::Ready ready;
  ready.set_generation(2);
  ready.mutable_lost()->set_computing(0.5);
  ready.mutable_lost()->set_connecting(0.25);
  const std::vector<TellCost> told = All<TellCost>(recovering_->OnReady(SessionId(1), ready, now_));
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].generation, Generation(2));
  EXPECT_EQ(told[0].lost.total(), absl::Milliseconds(750));
  EXPECT_THAT(All<TellCost>(Ready(3, 0, 2)), IsEmpty());
}

TEST_F(MembershipRecoveryTest, Ready_OfAViewThatIsPast_ItsCostIsToldAllTheSame) {
  Begin();
  Broke(2);
  Broke(3);
  v1::Ready ready;
  ready.set_generation(2);
  ready.mutable_lost()->set_waiting(1);
  const Outcome outcome = recovering_->OnReady(SessionId(1), ready, now_);
  ASSERT_THAT(All<TellCost>(outcome), SizeIs(1));
  EXPECT_EQ(All<TellCost>(outcome)[0].generation, Generation(2));
  EXPECT_THAT(outcome.actions, SizeIs(1));
}

TEST_F(MembershipRecoveryTest, Loss_OthersAdoptItsRanksFromTheFirstOpenStep) {
  Begin();
  for (int session = 1; session <= 3; ++session) Ready(session, 0);
  const Outcome outcome = Broke(2);
  EXPECT_THAT(All<EndRun>(outcome), IsEmpty());
  EXPECT_THAT(All<FormRun>(outcome), SizeIs(1));
  EXPECT_THAT(All<SendView>(outcome), SizeIs(2));
  const View view = ViewOf(outcome, 3);
  EXPECT_EQ(view.generation, Generation(2));
  EXPECT_EQ(view.first_step, Step(1));
  EXPECT_TRUE(view.seals);
  EXPECT_THAT(view.OwnRanks(), ElementsAre(Rank(1), Rank(2)));
  EXPECT_THAT(ViewOf(outcome, 1).OwnRanks(), ElementsAre(Rank(0)));
  EXPECT_THAT(outcome.why, HasSubstr("rank 1 (10.10.1.2:2) was lost in step 1"));
}

TEST_F(MembershipRecoveryTest, LossOfAWorkerWithSeveralRanks_IsToldOfInThePlural) {
  Begin();
  EXPECT_THAT(Broke(2).why, HasSubstr("; rank 1 is carried on by others, generation 2 begins"));
  EXPECT_THAT(Broke(3).why,
              HasSubstr("; ranks 1, 2 are carried on by others, generation 3 begins"));
}

TEST_F(MembershipRecoveryTest, Loss_IsToldWithItsRanks) {
  Begin();
  const std::vector<TellLoss> losses = All<TellLoss>(Broke(2));
  ASSERT_THAT(losses, SizeIs(1));
  EXPECT_THAT(losses[0].ranks, ElementsAre(Rank(1)));
  EXPECT_EQ(losses[0].address, "10.10.1.2:2");
}

TEST_F(MembershipRecoveryTest, Finished_BeforeTheLastStepIsSealed_IsALossThatOthersSurvive) {
  Begin();
  Ready(1, 0);
  const Outcome outcome = Finished(1);
  EXPECT_THAT(outcome.why, HasSubstr("it left: the last step is not sealed yet"));
  EXPECT_THAT(All<SendView>(outcome), SizeIs(2));
  EXPECT_THAT(Ready(2, 0, 2).actions, IsEmpty());
  EXPECT_THAT(All<SendSealed>(Ready(3, 0, 2)), SizeIs(2));
}

TEST_F(MembershipRecoveryTest, Finished_NobodySeals_EndsTheRunWell) {
  Begin();
  EXPECT_THAT(All<EndRun>(Finished(1)), IsEmpty());
  EXPECT_THAT(All<EndRun>(Finished(2)), IsEmpty());
  const std::vector<EndRun> end = All<EndRun>(Finished(3));
  ASSERT_THAT(end, SizeIs(1));
  EXPECT_TRUE(end[0].status.ok());
}

TEST_F(MembershipRecoveryTest, Finished_OthersSealAfterIt_StepsAreSealedForThem) {
  Begin();
  Finished(1);
  EXPECT_THAT(Ready(2, 0).actions, IsEmpty());
  EXPECT_THAT(All<SendSealed>(Ready(3, 0)), SizeIs(2));
}

TEST_F(MembershipRecoveryTest, Finished_ThenALoss_EndsTheRun) {
  Begin();
  Finished(1);
  const std::vector<EndRun> end = All<EndRun>(Broke(2));
  ASSERT_THAT(end, SizeIs(1));
  EXPECT_THAT(end[0].status.message(),
              HasSubstr("rank 0 has already finished and cannot adopt ranks"));
}

TEST_F(MembershipRecoveryTest, Loss_AnotherWorkerComes_IsRefusedAndTheRunGoesOn) {
  Begin();
  Broke(2);
  for (const int rank : {1, 2}) {
    const Outcome outcome = Hello(TestHello(3 + rank, {rank}));
    EXPECT_THAT(outcome.actions, SizeIs(1));
    ASSERT_THAT(All<CloseSession>(outcome), SizeIs(1));
    EXPECT_EQ(All<CloseSession>(outcome)[0].status,
              absl::FailedPreconditionError("the run goes on without the workers that it has lost; "
                                            "no other worker can take their place"));
  }
  EXPECT_THAT(Ready(1, 0, 2).actions, IsEmpty());
  EXPECT_THAT(All<SendSealed>(Ready(3, 0, 2)), SizeIs(2));
}

TEST_F(MembershipRecoveryTest, Loss_ReadyOfTheViewBefore_IsPassedOver) {
  Begin();
  Ready(1, 0);
  Broke(2);
  EXPECT_THAT(Ready(3, 0, 1).actions, IsEmpty());
  EXPECT_THAT(Ready(3, 0, 2).actions, IsEmpty());
  EXPECT_THAT(All<SendSealed>(Ready(1, 0, 2)), SizeIs(2));
}

TEST_F(MembershipRecoveryTest, Loss_AllButOne_TheLastCarriesAll) {
  Begin();
  Broke(2);
  const View view = ViewOf(Broke(1), 3);
  EXPECT_EQ(view.generation, Generation(3));
  EXPECT_THAT(view.OwnRanks(), ElementsAre(Rank(0), Rank(1), Rank(2)));
  EXPECT_THAT(All<EndRun>(Broke(3)), SizeIs(1));
}

TEST_F(MembershipRecoveryTest, Loss_LayoutsAreServedAnew) {
  Begin();
  v1::Layout layout;
  layout.add_buckets()->set_bytes(64);
  layout.mutable_buckets(0)->set_dtype(v1::DTYPE_FLOAT32);
  for (int session = 1; session <= 3; ++session) {
    recovering_->OnLayout(SessionId(session), layout, now_);
  }
  const std::vector<AgreeLayout> agreed = All<AgreeLayout>(Broke(2));
  ASSERT_THAT(agreed, SizeIs(1));
  EXPECT_EQ(agreed[0].buckets.at(0).bytes, 64u);
}

TEST_F(MembershipRecoveryTest, Loss_OfARunWithTwoLayouts_BothAreServedAnew) {
  Begin();
  for (const uint32_t id : {0, 1}) {
    v1::Layout layout;
    layout.set_id(id);
    layout.add_buckets()->set_bytes(64 + 64 * id);
    layout.mutable_buckets(0)->set_dtype(v1::DTYPE_FLOAT32);
    for (int session = 1; session <= 3; ++session) {
      recovering_->OnLayout(SessionId(session), layout, now_);
    }
  }
  const std::vector<AgreeLayout> agreed = All<AgreeLayout>(Broke(2));
  ASSERT_THAT(agreed, SizeIs(2));
  for (const int id : {0, 1}) {
    EXPECT_EQ(agreed[id].layout, LayoutId(id));
    EXPECT_EQ(agreed[id].buckets.at(0).bytes, 64u + 64u * id);
  }
}

TEST_F(MembershipRecoveryTest, Loss_WhileALayoutIsDeclared_IsAgreedByTheOthers) {
  for (const bool declares_first : {true, false}) {
    SCOPED_TRACE(declares_first);
    Begin();
    v1::Layout layout;
    layout.add_buckets()->set_bytes(64);
    layout.mutable_buckets(0)->set_dtype(v1::DTYPE_FLOAT32);
    const auto declare = [&](int session) {
      return recovering_->OnLayout(SessionId(session), layout, now_);
    };
    if (declares_first) declare(2);
    declare(1);
    EXPECT_THAT(All<AgreeLayout>(Broke(2)), IsEmpty());
    EXPECT_THAT(All<SendLayoutAgreed>(declare(3)), SizeIs(2));
  }
}

TEST_F(MembershipRecoveryTest, Loss_OfTheOnlyOneThatHasNotDeclared_AgreesTheLayoutBehindTheView) {
  Begin();
  v1::Layout layout;
  layout.add_buckets()->set_bytes(64);
  layout.mutable_buckets(0)->set_dtype(v1::DTYPE_FLOAT32);
  for (const int session : {1, 3}) recovering_->OnLayout(SessionId(session), layout, now_);
  const Outcome outcome = Broke(2);
  EXPECT_THAT(All<SendView>(outcome), SizeIs(2));
  EXPECT_THAT(All<AgreeLayout>(outcome), SizeIs(1));
  ASSERT_THAT(All<SendLayoutAgreed>(outcome), SizeIs(2));
  EXPECT_TRUE(std::holds_alternative<SendLayoutAgreed>(outcome.actions.back()));
}

TEST_F(MembershipRecoveryTest, Loss_BeforeAnyLayout_TheOthersAgree) {
  Begin();
  EXPECT_THAT(All<SendView>(Broke(2)), SizeIs(2));
  v1::Layout layout;
  layout.add_buckets()->set_bytes(64);
  layout.mutable_buckets(0)->set_dtype(v1::DTYPE_FLOAT32);
  recovering_->OnLayout(SessionId(1), layout, now_);
  EXPECT_THAT(All<SendLayoutAgreed>(recovering_->OnLayout(SessionId(3), layout, now_)), SizeIs(2));
}

TEST_F(MembershipRecoveryTest, Loss_FewerThanMinWorkers_EndsTheRun) {
  Begin(RecoveringConfig(3));
  const Outcome outcome = Broke(2);
  ASSERT_THAT(All<EndRun>(outcome), SizeIs(1));
  EXPECT_THAT(All<EndRun>(outcome)[0].status.message(),
              HasSubstr("2 workers are left, expected 3 or more to go on"));
}

TEST_F(MembershipRecoveryTest, Suspect_AfterItsLoss_IsPassedOver) {
  Begin();
  Broke(2);
  EXPECT_THAT(Suspect(1, 2).actions, IsEmpty());
}

TEST_F(MembershipRecoveryTest, Suspect_NotLostByItself_IsEvictedAndTold) {
  Begin();
  Suspect(1, 2);
  Outcome outcome;
  for (int i = 0; i < 20 && outcome.actions.empty(); ++i) {
    now_ += absl::Milliseconds(100);
    outcome = recovering_->OnTick(now_);
  }
  ASSERT_THAT(All<SendAbort>(outcome), SizeIs(1));
  EXPECT_EQ(All<SendAbort>(outcome)[0].session, SessionId(2));
  EXPECT_THAT(All<SendAbort>(outcome)[0].reason, HasSubstr("the run goes on without this worker"));
  EXPECT_THAT(All<SendView>(outcome), SizeIs(2));
}

TEST_F(MembershipRecoveryTest, Suspect_OfAnEarlierView_HarmsNobody) {
  Begin();
  Suspect(1, 3);
  Broke(2);
  Suspect(1, 3);
  for (int i = 0; i < 20; ++i) {
    now_ += absl::Milliseconds(100);
    for (const int session : {1, 3}) recovering_->OnHeartbeat(SessionId(session), {}, now_);
    EXPECT_THAT(recovering_->OnTick(now_).actions, IsEmpty());
  }
}

TEST_F(MembershipRecoveryTest, Suspect_BeforeTheLastSeal_HarmsNobodyBehindIt) {
  Begin();
  for (int session = 1; session <= 3; ++session) Ready(session, 0);
  Suspect(1, 2);
  for (int session = 1; session <= 3; ++session) Ready(session, 1, 1, /*last=*/true);
  Suspect(3, 2);
  for (int i = 0; i < 20; ++i) {
    now_ += absl::Milliseconds(100);
    for (const int session : {1, 2, 3}) recovering_->OnHeartbeat(SessionId(session), {}, now_);
    EXPECT_THAT(recovering_->OnTick(now_).actions, IsEmpty());
  }
}

TEST_F(MembershipRecoveryTest, Evicted_IsNotLetInAgain) {
  Begin();
  Broke(2);
  v1::Hello hello = TestHello(2, {1});
  const Outcome outcome = recovering_->OnHello(SessionId(9), hello, now_);
  EXPECT_THAT(All<CloseSession>(outcome), SizeIs(1));
}

TEST_F(MembershipRecoveryTest, LossAfterTheLastStep_NeedsNoViewAndTheRunIsWhole) {
  Begin();
  for (int session = 1; session <= 3; ++session) Ready(session, 0);
  for (int session = 1; session <= 3; ++session) Ready(session, 1, 1, /*last=*/true);
  EXPECT_THAT(All<EndRun>(Finished(1)), IsEmpty());
  const Outcome outcome = Broke(2);
  EXPECT_THAT(All<SendView>(outcome), IsEmpty());
  EXPECT_THAT(All<EndRun>(outcome), IsEmpty());
  const std::vector<EndRun> end = All<EndRun>(Finished(3));
  ASSERT_THAT(end, SizeIs(1));
  EXPECT_TRUE(end[0].status.ok());
}

TEST_F(MembershipRecoveryTest, OneDoesNotLeaveAfterTheLastStep_RunEndsWellWithoutIt) {
  Begin();
  for (int session = 1; session <= 3; ++session) Ready(session, 0, 1, /*last=*/true);
  Finished(1);
  Finished(3);
  std::vector<EndRun> end;
  std::string why;
  int seconds = 0;
  for (; end.empty() && seconds < 100; ++seconds) {
    now_ += absl::Seconds(1);
    recovering_->OnHeartbeat(SessionId(2), {}, now_);
    const Outcome outcome = recovering_->OnTick(now_);
    end = All<EndRun>(outcome);
    why = outcome.why;
  }
  ASSERT_THAT(end, SizeIs(1));
  EXPECT_TRUE(end[0].status.ok()) << end[0].status;
  EXPECT_EQ(seconds, 61);
  EXPECT_THAT(why, HasSubstr("lost after the last step: it did not leave within 60"));
}

TEST_F(MembershipRecoveryTest, RunEndedAfterTheLastStep_MinuteLater_NobodyIsLost) {
  Begin();
  for (int session = 1; session <= 3; ++session) Ready(session, 0, 1, /*last=*/true);
  v1::Leave leave;
  leave.set_ends_run(true);
  leave.set_reason("the disk is full");
  ASSERT_THAT(All<EndRun>(recovering_->OnLeave(SessionId(1), leave, now_)), SizeIs(1));
  const std::string reason = recovering_->Status().reason();
  for (int seconds = 0; seconds < 70; ++seconds) {
    now_ += absl::Seconds(1);
    EXPECT_THAT(recovering_->OnTick(now_).actions, IsEmpty()) << seconds;
  }
  EXPECT_EQ(recovering_->Status().reason(), reason);
}

TEST_F(MembershipRecoveryTest, CoordinatorStoodStillAfterTheLastStep_OneMayStillLeave) {
  Begin();
  for (int session = 1; session <= 3; ++session) Ready(session, 0, 1, /*last=*/true);
  Finished(1);
  Finished(3);
  now_ += absl::Minutes(5);
  EXPECT_THAT(recovering_->OnTick(now_).actions, IsEmpty());
  const std::vector<EndRun> end = All<EndRun>(Finished(2));
  ASSERT_THAT(end, SizeIs(1));
  EXPECT_TRUE(end[0].status.ok()) << end[0].status;
}

TEST_F(MembershipRecoveryTest, LossAfterTheLastStep_OfTheLastOne_EndsTheRunWell) {
  Begin();
  for (int session = 1; session <= 3; ++session) Ready(session, 0, 1, /*last=*/true);
  Finished(1);
  Finished(3);
  const std::vector<EndRun> end = All<EndRun>(Broke(2));
  ASSERT_THAT(end, SizeIs(1));
  EXPECT_TRUE(end[0].status.ok());
}

// As the process that hosts the coordinator.
TEST_F(MembershipRecoveryTest, Leave_ThatEndsTheRun_OthersDoNotGoOn) {
  Begin();
  v1::Leave leave;
  leave.set_reason("its host is shut down");
  leave.set_ends_run(true);
  const Outcome outcome = recovering_->OnLeave(SessionId(1), leave, now_);
  ASSERT_THAT(All<EndRun>(outcome), SizeIs(1));
  EXPECT_EQ(All<EndRun>(outcome)[0].status,
            absl::AbortedError("rank 0 ends the run: its host is shut down"));
  EXPECT_THAT(All<SendAbort>(outcome), SizeIs(2));
  EXPECT_THAT(All<SendView>(outcome), IsEmpty());
}

TEST_F(MembershipRecoveryTest, Leave_ThatEndsTheRunBeforeItBegins_FreesThePlace) {
  recovering_.emplace(RecoveringConfig(), now_);
  Hello(TestHello(1, {0}));
  v1::Leave leave;
  leave.set_ends_run(true);
  EXPECT_THAT(All<EndRun>(recovering_->OnLeave(SessionId(1), leave, now_)), IsEmpty());
  Hello(TestHello(2, {1}));
  Hello(TestHello(3, {2}));
  EXPECT_THAT(All<SendView>(Hello(TestHello(4, {0}))), SizeIs(3));
}

// They reached each other in that step.
TEST_F(MembershipRecoveryTest,
       OnSuspect_AStepWasSealedSinceTheLastLoss_EarlierSuspicionsDoNotCount) {
  Begin();
  const auto lost_by = [this](int session, int other, uint64_t generation) {
    v1::Suspect suspect;
    suspect.set_incarnation(static_cast<uint64_t>(other));
    suspect.set_generation(generation);
    suspect.set_cause("no answer");
    recovering_->OnSuspect(SessionId(session), suspect, now_);
    now_ += absl::Seconds(1);
    for (const int heard : {1, 2, 3}) recovering_->OnHeartbeat(SessionId(heard), {}, now_);
    return All<SendAbort>(recovering_->OnTick(now_));
  };
  const auto second = lost_by(1, 2, 1);
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_EQ(second[0].session, SessionId(2));  // it joined after the first one
  Ready(1, 0, 2);
  Ready(3, 0, 2);
  const auto third = lost_by(3, 1, 2);
  ASSERT_THAT(third, SizeIs(1));
  EXPECT_EQ(third[0].session, SessionId(3));
}

}  // namespace
}  // namespace gradwire
