#include <map>
#include <string>

#include "tests/coordinator/membership/membership_fixture.h"

namespace gradwire {
namespace {

using ::gradwire::testing::All;
using ::gradwire::testing::Refusal;
using ::gradwire::testing::TestHello;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using MembershipTest = testing::MembershipFixture;

TEST_F(MembershipTest, OnHello_FirstWorker_WaitsForMore) {
  const Outcome outcome = Hello(1);
  EXPECT_THAT(outcome.actions, IsEmpty());
  EXPECT_EQ(outcome.why, "a worker at 10.10.1.2:1 joined; 1 of 3 workers are present");
}

TEST_F(MembershipTest, OnHello_LastWorker_FormsRunBeforeAnyViewIsSent) {
  Hello(1);
  Hello(2);
  const Outcome outcome = Hello(3);
  ASSERT_EQ(outcome.actions.size(), 4);
  EXPECT_TRUE(std::holds_alternative<FormRun>(outcome.actions[0]));
  EXPECT_EQ(All<SendView>(outcome).size(), 3);
}

TEST_F(MembershipTest, OnHello_LastWorker_GivesEachItsRank) {
  Hello(1, {2});
  Hello(2);
  const std::vector<SendView> views = All<SendView>(Hello(3));
  ASSERT_EQ(views.size(), 3);
  EXPECT_EQ(views[0].session, SessionId(2));
  EXPECT_THAT(views[0].view.OwnRanks(), ElementsAre(Rank(0)));
  EXPECT_EQ(views[1].session, SessionId(3));
  EXPECT_THAT(views[1].view.OwnRanks(), ElementsAre(Rank(1)));
  EXPECT_EQ(views[2].session, SessionId(1));
  EXPECT_THAT(views[2].view.OwnRanks(), ElementsAre(Rank(2)));
}

TEST_F(MembershipTest, OnHello_LastWorker_ViewHasMembersInRankOrder) {
  Hello(1, {2});
  Hello(2, {1});
  const FormRun run = All<FormRun>(Hello(3)).at(0);
  EXPECT_EQ(run.view.generation, Generation(1));
  EXPECT_EQ(run.view.world_size, 3);
  ASSERT_EQ(run.view.members.size(), 3);
  EXPECT_EQ(run.view.members[0].address, "10.10.1.2:3");
  EXPECT_EQ(run.view.members[2].incarnation, Incarnation(1));
  EXPECT_THAT(run.view.members[2].ranks, ElementsAre(Rank(2)));
}

TEST_F(MembershipTest, OnHello_RankTaken_NamesWhoHasIt) {
  Hello(1, {1});
  EXPECT_EQ(Refusal(Hello(2, {1})), absl::AlreadyExistsError("rank 1 is taken by 10.10.1.2:1"));
}

TEST_F(MembershipTest, OnHello_Refused_SaysWhyInTheLog) {
  Hello(1, {1});
  EXPECT_EQ(Hello(2, {1}).why, "refused a worker at 10.10.1.2:2: rank 1 is taken by 10.10.1.2:1");
}

TEST_F(MembershipTest, OnHello_AfterARefusal_TakesAWorkerThatFits) {
  Hello(1, {0});
  Hello(2, {0});
  Hello(3);
  EXPECT_EQ(All<FormRun>(Hello(4)).size(), 1);
}

TEST_F(MembershipTest, OnHello_IncarnationOfAMember_IsRefused) {
  Hello(1);
  EXPECT_EQ(Refusal(membership_.OnHello(SessionId(2), TestHello(1), now_)),
            absl::AlreadyExistsError("incarnation 1 is rank 0 (10.10.1.2:1)"));
}

TEST_F(MembershipTest, OnHello_IncarnationThatLeft_IsRefused) {
  Hello(1);
  Broke(1);
  EXPECT_EQ(
      Refusal(membership_.OnHello(SessionId(2), TestHello(1), now_)),
      absl::FailedPreconditionError("incarnation 1 has left this run; start the worker anew"));
}

TEST_F(MembershipTest, OnHello_OtherWorldSize_IsRefused) {
  v1::Hello hello = TestHello(1);
  hello.set_world_size(4);
  EXPECT_EQ(Refusal(membership_.OnHello(SessionId(1), hello, now_)),
            absl::InvalidArgumentError("world size: got 4, expected 3 (coordinator)"));
}

TEST_F(MembershipTest, OnHello_OtherSetting_NamesWhoFixedIt) {
  Hello(1, {2});
  v1::Hello hello = TestHello(2);
  (*hello.mutable_settings())["lr"] = "0.2";
  EXPECT_EQ(Refusal(membership_.OnHello(SessionId(2), hello, now_)),
            absl::InvalidArgumentError("setting 'lr': got 0.2, expected 0.1 (rank 2)"));
}

TEST_F(MembershipTest, OnHello_LoopbackAmongOthers_IsRefused) {
  Hello(1);
  v1::Hello hello = TestHello(2);
  hello.set_address("127.0.0.1:2");
  const absl::Status status = Refusal(membership_.OnHello(SessionId(2), hello, now_));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("or with --advertise HOST"));
}

TEST_F(MembershipTest, OnHello_RunIsFull_IsRefused) {
  Form();
  EXPECT_EQ(Refusal(Hello(4)),
            absl::FailedPreconditionError("the run has all its workers; its world size is 3"));
}

TEST_F(MembershipTest, OnHello_RunIsOver_SaysWhy) {
  membership_.OnShutdown("stopped");
  EXPECT_EQ(Refusal(Hello(1)), absl::FailedPreconditionError("the run is over: stopped"));
}

TEST_F(MembershipTest, OnHello_Second_ClosesSessionAndFreesRank) {
  Hello(1, {0});
  EXPECT_EQ(Refusal(Hello(1, {0})), absl::InvalidArgumentError("session: got a second Hello"));
  EXPECT_THAT(Hello(2, {0}).actions, IsEmpty());
}

TEST_F(MembershipTest, OnHeartbeat_BeforeHello_ClosesSession) {
  EXPECT_EQ(Refusal(membership_.OnHeartbeat(SessionId(1), {}, now_)),
            absl::InvalidArgumentError("session: got Heartbeat before Hello"));
}

TEST_F(MembershipTest, OnStepDone_NotBySlowestRank_EntersNoStep) {
  Form();
  EXPECT_TRUE(All<EnterStep>(StepsDone(1, 1)).empty());
  EXPECT_TRUE(All<EnterStep>(StepsDone(2, 2)).empty());
}

TEST_F(MembershipTest, OnStepDone_BySlowestRank_EntersTheStepThatAllAreAt) {
  Form();
  StepsDone(1, 2);
  StepsDone(2, 3);
  const Outcome outcome = StepsDone(3, 2);
  EXPECT_EQ(std::get<EnterStep>(outcome.actions[1]).step, Step(2));
}

TEST_F(MembershipTest, OnStepDone_BeforeHello_ClosesSession) {
  EXPECT_EQ(Refusal(membership_.OnStepDone(SessionId(1), {}, now_)),
            absl::InvalidArgumentError("session: got StepDone before Hello"));
}

TEST_F(MembershipTest, OnLeave_BeforeHello_ClosesSession) {
  EXPECT_EQ(Refusal(Leave(1, true, "")),
            absl::InvalidArgumentError("session: got Leave before Hello"));
}

TEST_F(MembershipTest, OnStreamClosed_BeforeHello_DoesNothing) {
  const Outcome outcome = Broke(1);
  EXPECT_THAT(outcome.actions, IsEmpty());
  EXPECT_EQ(outcome.why, "");
}

TEST_F(MembershipTest, OnStreamClosed_BeforeTheView_FreesTheRank) {
  Hello(1, {0});
  Hello(2, {1});
  const Outcome outcome = Broke(2);
  EXPECT_THAT(outcome.actions, IsEmpty());
  EXPECT_EQ(outcome.why,
            "rank 1 (10.10.1.2:2) is gone before the run began, its place is free: its session "
            "stream broke; 1 of 3 workers are present");
  EXPECT_THAT(Hello(3, {1}).actions, IsEmpty());
}

TEST_F(MembershipTest, OnStreamClosed_OfTheOnlyWorker_LetsTheNextFixTheSettings) {
  Hello(1);
  Broke(1);
  v1::Hello hello = TestHello(2);
  (*hello.mutable_settings())["lr"] = "0.2";
  EXPECT_THAT(membership_.OnHello(SessionId(2), hello, now_).actions, IsEmpty());
}

TEST_F(MembershipTest, OnStreamClosed_OthersAreThere_KeepsTheSettings) {
  Hello(1);
  Hello(2);
  Broke(1);
  v1::Hello hello = TestHello(3);
  (*hello.mutable_settings())["lr"] = "0.2";
  EXPECT_EQ(Refusal(membership_.OnHello(SessionId(3), hello, now_)),
            absl::InvalidArgumentError("setting 'lr': got 0.2, expected 0.1 (rank 0)"));
}

TEST_F(MembershipTest, OnStreamClosed_MidRun_EndsTheRunNamingRankStepAndCause) {
  Form();
  StepsDone(3, 7);
  const Outcome outcome = Broke(3);
  const std::vector<EndRun> ends = All<EndRun>(outcome);
  ASSERT_EQ(ends.size(), 1);
  EXPECT_EQ(
      ends[0].status,
      absl::AbortedError("rank 2 (10.10.1.2:3) was lost in step 7: its session stream broke"));
}

TEST_F(MembershipTest, OnStreamClosed_MidRun_TellsAllOthersThenClosesThem) {
  Form();
  const Outcome outcome = Broke(3);
  const std::vector<SendAbort> aborts = All<SendAbort>(outcome);
  ASSERT_EQ(aborts.size(), 2);
  EXPECT_EQ(aborts[0].session, SessionId(1));
  EXPECT_EQ(aborts[1].session, SessionId(2));
  EXPECT_EQ(aborts[0].reason, "rank 2 (10.10.1.2:3) was lost in step 0: its session stream broke");
  EXPECT_EQ(All<CloseSession>(outcome).size(), 2);
  EXPECT_EQ(outcome.why, "the run failed: " + aborts[0].reason);
}

TEST_F(MembershipTest, OnNonsense_MidRun_LosesTheRank) {
  Form();
  const Outcome outcome = membership_.OnNonsense(SessionId(1), "a message of unknown kind", now_);
  EXPECT_EQ(All<SendAbort>(outcome).at(0).reason,
            "rank 0 (10.10.1.2:1) was lost in step 0: it broke the protocol: a message of unknown "
            "kind");
}

TEST_F(MembershipTest, OnLeave_NotFinished_EndsTheRunWithTheReasonGiven) {
  Form();
  const Outcome outcome = Leave(2, false, "the disk is full");
  EXPECT_EQ(All<EndRun>(outcome).at(0).status,
            absl::AbortedError("rank 1 (10.10.1.2:2) was lost in step 0: it left: the disk is "
                               "full"));
  EXPECT_EQ(All<CloseSession>(outcome).at(0).status, absl::OkStatus());
}

TEST_F(MembershipTest, OnLeave_NotFinishedWithoutReason_SaysSo) {
  Form();
  EXPECT_THAT(Leave(2, false, "").why, HasSubstr("it left: no reason given"));
}

TEST_F(MembershipTest, OnLeave_BeforeTheView_FreesTheRank) {
  Hello(1, {0});
  const Outcome outcome = Leave(1, false, "stopped by SIGTERM");
  EXPECT_EQ(Refusal(outcome), absl::OkStatus());
  EXPECT_THAT(outcome.why, HasSubstr("its place is free: it left: stopped by SIGTERM"));
}

TEST_F(MembershipTest, OnLeave_OneFinished_RunGoesOn) {
  Form();
  StepsDone(1, 4);
  const Outcome outcome = Leave(1, true, "");
  EXPECT_EQ(Refusal(outcome), absl::OkStatus());
  EXPECT_EQ(outcome.why, "rank 0 (10.10.1.2:1) finished after 4 steps");
  EXPECT_EQ(membership_.Status().state(), "running");
}

TEST_F(MembershipTest, OnLeave_AllFinished_EndsTheRunWell) {
  Form();
  Leave(1, true, "");
  Leave(2, true, "");
  const Outcome outcome = Leave(3, true, "");
  EXPECT_EQ(All<EndRun>(outcome).at(0).status, absl::OkStatus());
  EXPECT_EQ(membership_.Status().state(), "finished");
  EXPECT_EQ(membership_.Status().reason(), "all ranks finished");
}

TEST_F(MembershipTest, OnStreamClosed_AfterOneFinished_StillEndsTheRun) {
  Form();
  Leave(1, true, "");
  const Outcome outcome = Broke(2);
  EXPECT_EQ(All<SendAbort>(outcome).size(), 1);
  EXPECT_EQ(All<EndRun>(outcome).at(0).status.code(), absl::StatusCode::kAborted);
}

TEST_F(MembershipTest, OnHeartbeat_AsksForAnEcho_GetsItsTimeBack) {
  Form();
  v1::Heartbeat heartbeat;
  heartbeat.set_sent(12.5);
  const auto echoes = All<SendEcho>(membership_.OnHeartbeat(SessionId(2), heartbeat, now_));
  ASSERT_EQ(echoes.size(), 1);
  EXPECT_EQ(echoes[0].session, SessionId(2));
  EXPECT_EQ(echoes[0].sent, 12.5);
}

TEST_F(MembershipTest, OnStepDone_Always_IsPassedOnWithItsRank) {
  Form();
  v1::StepDone done;
  done.set_step(4);
  done.set_rank(1);
  const auto taken = All<TakeStep>(membership_.OnStepDone(SessionId(2), done, now_));
  ASSERT_EQ(taken.size(), 1);
  EXPECT_EQ(taken[0].done.rank(), 1u);
  EXPECT_EQ(taken[0].done.step(), 4u);
}

TEST_F(MembershipTest, OnStreamClosed_MidRun_TellsOfTheLossBeforeTheEnd) {
  Form();
  StepsDone(2, 3);
  const Outcome outcome = Broke(2);
  const auto told = All<TellLoss>(outcome);
  ASSERT_EQ(told.size(), 1);
  EXPECT_THAT(told[0].ranks, ElementsAre(Rank(1)));
  EXPECT_EQ(told[0].step, Step(3));
  EXPECT_EQ(membership_.Status().ranks(1).state(), "lost");
  EXPECT_TRUE(std::holds_alternative<EndRun>(outcome.actions.back()));
}

TEST_F(MembershipTest, Status_WithTheTime_HowLongMembersWereSilent) {
  Form();
  const v1::StatusReply status = membership_.Status(now_ + absl::Seconds(2));
  EXPECT_EQ(status.ranks(0).silent_seconds(), 2);
  EXPECT_FALSE(membership_.Status().ranks(0).has_silent_seconds());
}

TEST_F(MembershipTest, Status_MidRun_HasEachRanksProgress) {
  Form();
  StepsDone(2, 3);
  const v1::StatusReply status = membership_.Status();
  EXPECT_EQ(status.state(), "running");
  EXPECT_EQ(status.generation(), 1);
  EXPECT_EQ(status.world_size(), 3);
  ASSERT_EQ(status.ranks_size(), 3);
  EXPECT_EQ(status.ranks(1).address(), "10.10.1.2:2");
  EXPECT_EQ(status.ranks(1).steps_done(), 3);
  EXPECT_EQ(status.ranks(1).last_step().loss(), 2.5);
}

// A worker declares the back end that exchanges a layout.
TEST_F(MembershipTest, Status_LayoutWithABackEnd_NamesItBesideTheSetting) {
  for (const auto& [told, shown] : std::map<std::string, std::string>{
           {"", "auto"}, {"auto", "auto"}, {"memory", "auto (memory)"}}) {
    Membership membership(Config(), now_);
    for (int session = 1; session <= 3; ++session) {
      v1::Hello hello = TestHello(session, {session - 1});
      (*hello.mutable_settings())["backend"] = "auto";
      membership.OnHello(SessionId(session), hello, now_);
    }
    v1::Layout layout = testing::TestLayout(0);
    layout.set_backend(told);
    membership.OnLayout(SessionId(1), layout, now_);
    EXPECT_EQ(membership.Status().settings().at("backend"), shown);
  }
}

TEST_F(MembershipTest, Status_SecondLayoutHasAnotherBackEnd_NamesThatOfTheFirst) {
  for (int session = 1; session <= 3; ++session) {
    v1::Hello hello = TestHello(session, {session - 1});
    (*hello.mutable_settings())["backend"] = "auto";
    membership_.OnHello(SessionId(session), hello, now_);
  }
  for (const int id : {0, 1}) {
    v1::Layout layout = testing::TestLayout(id);
    layout.set_backend(id == 0 ? "memory" : "coordinator");
    membership_.OnLayout(SessionId(1), layout, now_);
  }
  EXPECT_EQ(membership_.Status().settings().at("backend"), "auto (memory)");
}

TEST_F(MembershipTest, Status_Waiting_SaysHowManyAreThere) {
  Hello(1);
  EXPECT_EQ(membership_.Status().state(), "waiting");
  EXPECT_EQ(membership_.Status().reason(), "1 of 3 workers are present");
  EXPECT_EQ(membership_.Status().generation(), 0);
}

TEST_F(MembershipTest, Status_Aborted_GivesTheReason) {
  Form();
  Broke(1);
  EXPECT_EQ(membership_.Status().state(), "aborted");
  EXPECT_THAT(membership_.Status().reason(), HasSubstr("rank 0 (10.10.1.2:1) was lost"));
}

}  // namespace
}  // namespace gradwire
