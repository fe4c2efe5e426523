#include "tests/coordinator/membership/membership_fixture.h"

namespace gradwire {
namespace {

using ::gradwire::testing::All;
using ::gradwire::testing::Refusal;
using ::gradwire::testing::TestHello;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

MembershipConfig Keeping() {
  MembershipConfig config;
  config.world_size = 3;
  config.recover = true;
  config.keeps_state = true;
  config.checkpoint_every = 5;
  return config;
}

class MembershipStateTest : public testing::MembershipFixture {
 protected:
  explicit MembershipStateTest(const MembershipConfig& config = Keeping())
      : MembershipFixture(config) {}

  Outcome Holds(int session, uint64_t step, uint64_t momentum = 7,
                const std::string& declined = "") {
    v1::Holds holds;
    holds.set_step(step);
    holds.set_generation(generation_);
    holds.set_declined(declined);
    v1::StateSection& model = *holds.add_sections();
    model.set_name("model");
    model.add_tensors()->set_key("fc1.weight");
    v1::StateSection& optimizer = *holds.add_sections();
    optimizer.set_name("optimizer");
    optimizer.add_tensors()->set_key("fc1.weight/momentum_buffer");
    const uint64_t digests[] = {3, momentum};
    for (uint32_t i = 0; i < 2; ++i) {
      v1::TensorDigest& digest = *holds.add_digests();
      digest.set_tensor(i);
      digest.set_digest(digests[i]);
    }
    return membership_.OnHolds(SessionId(session), holds, now_);
  }
  Outcome Ready(int session, uint64_t step) {
    v1::Ready ready;
    ready.set_step(step);
    ready.set_generation(generation_);
    return membership_.OnReady(SessionId(session), ready, now_);
  }

  uint64_t generation_ = 1;
};

TEST_F(MembershipStateTest, View_SaysThatTheRunKeepsState) {
  Hello(1);
  Hello(2);
  const View view = All<SendView>(Hello(3)).at(0).view;
  EXPECT_TRUE(view.keeps_state);
  EXPECT_EQ(view.checkpoint_every, 5);
}

TEST_F(MembershipStateTest, OnSaveRequest_WorkersAreMissing_AsksNone) {
  Hello(1);
  Hello(2);
  EXPECT_THAT(membership_.OnSaveRequest().actions, IsEmpty());
}

TEST_F(MembershipStateTest, OnHolds_AllHoldTheSameStep_SavesIt) {
  Form();
  EXPECT_THAT(Holds(1, 5).actions, IsEmpty());
  EXPECT_THAT(Holds(2, 5).actions, IsEmpty());
  const std::vector<SaveState> saves = All<SaveState>(Holds(3, 5));
  ASSERT_THAT(saves, SizeIs(1));
  EXPECT_EQ(saves[0].step, Step(5));
  EXPECT_EQ(saves[0].generation, Generation(1));
  ASSERT_THAT(saves[0].donors, SizeIs(3));
  EXPECT_EQ(saves[0].donors[1].address, "10.10.1.2:2");
  EXPECT_EQ(saves[0].settings.at("seed"), "744");
}

TEST_F(MembershipStateTest, OnHolds_AnotherStep_WaitsForTheRest) {
  Form();
  Holds(1, 5);
  Holds(2, 10);
  EXPECT_THAT(All<SaveState>(Holds(3, 10)), IsEmpty());
  EXPECT_THAT(All<SaveState>(Holds(1, 10)), SizeIs(1));
}

TEST_F(MembershipStateTest, OnHolds_AllHold_ManifestHasTheLengthOfTheRunAndItsEnvironment) {
  for (int session = 1; session <= 3; ++session) {
    v1::Hello hello = TestHello(session, {session - 1});
    hello.set_threads(2);
    (*hello.mutable_environment())["blas"] = "OpenBLAS";
    membership_.OnHello(SessionId(session), hello, now_);
  }
  v1::Holds holds;
  holds.set_step(5);
  holds.set_generation(1);
  holds.set_total_steps(30);
  holds.set_steps_per_epoch(10);
  holds.mutable_optimizer()->set_name("adam");
  for (int session = 1; session <= 2; ++session) {
    membership_.OnHolds(SessionId(session), holds, now_);
  }
  const SaveState save = All<SaveState>(membership_.OnHolds(SessionId(3), holds, now_)).at(0);
  EXPECT_EQ(save.total_steps, 30u);
  EXPECT_EQ(save.steps_per_epoch, 10u);
  EXPECT_EQ(save.threads, 2);
  EXPECT_EQ(save.environment.at("blas"), "OpenBLAS");
  EXPECT_EQ(save.optimizer.name(), "adam");
}

// The workers send their copies now.
TEST_F(MembershipStateTest, NextView_CopiesAreBeingSaved_NoneIsFreed) {
  Form();
  Holds(1, 5);
  Holds(2, 5);
  ASSERT_THAT(All<SaveState>(Holds(3, 5)), SizeIs(1));
  const Outcome outcome = Broke(3);
  EXPECT_THAT(All<FormRun>(outcome), SizeIs(1));
  EXPECT_THAT(All<SendSaved>(outcome), IsEmpty());
}

TEST_F(MembershipStateTest, OnHolds_SeveralDecline_TheFirstIsAWarningForEachStep) {
  Form();
  const Outcome first = Holds(2, 5, 7, "an earlier copy is in use");
  EXPECT_THAT(first.why, HasSubstr("no checkpoint before step 5: rank 1 has no copy"));
  EXPECT_TRUE(first.warns);
  ASSERT_THAT(All<TellNoCheckpoint>(first), SizeIs(1));
  EXPECT_EQ(All<TellNoCheckpoint>(first)[0].step, Step(5));
  EXPECT_EQ(All<TellNoCheckpoint>(first)[0].why,
            "rank 1 has no copy, because an earlier copy is in use");
  const Outcome second = Holds(3, 5, 7, "an earlier copy is in use");
  EXPECT_EQ(second.why, "");
  EXPECT_THAT(All<TellNoCheckpoint>(second), IsEmpty());
  EXPECT_THAT(Holds(3, 10, 7, "an earlier copy is in use").why,
              HasSubstr("no checkpoint before step 10: rank 2 has no copy"));
}

// A request came late, or a later view computes the step before the copy again.
TEST_F(MembershipStateTest, OnHolds_DeclinedWhileCopiesOfThatStepAreSaved_NoCheckpointIsMissed) {
  Form();
  for (int session = 1; session <= 3; ++session) Holds(session, 5);
  const Outcome outcome = Holds(2, 5, 7, "that step had begun when it was asked for");
  EXPECT_EQ(outcome.why, "");
  EXPECT_THAT(outcome.actions, IsEmpty());
}

TEST_F(MembershipStateTest, OnHolds_OfAnEarlierView_IsFreedAndDoesNotCount) {
  Form();
  Broke(3);
  const std::vector<SendSaved> freed = All<SendSaved>(Holds(1, 5));
  ASSERT_THAT(freed, SizeIs(1));
  EXPECT_EQ(freed[0].session, SessionId(1));
  EXPECT_EQ(freed[0].generation, Generation(1)) << "that of the copy";
  EXPECT_FALSE(freed[0].written);
  EXPECT_THAT(All<SaveState>(Holds(2, 5)), IsEmpty());
  generation_ = 2;
  Holds(1, 5);
  EXPECT_THAT(All<SaveState>(Holds(2, 5)), SizeIs(1));
}

TEST_F(MembershipStateTest, OnHolds_Declined_FreesTheOthersCopies) {
  Form();
  Holds(1, 5);
  const Outcome outcome = Holds(2, 5, 7, "an earlier copy is in use");
  const std::vector<SendSaved> saved = All<SendSaved>(outcome);
  ASSERT_THAT(saved, SizeIs(1));
  EXPECT_EQ(saved[0].session, SessionId(1));
  EXPECT_FALSE(saved[0].written);
  EXPECT_THAT(outcome.why, HasSubstr("an earlier copy is in use"));
}

TEST_F(MembershipStateTest, OnHolds_AfterAnotherDeclined_IsFreedAtOnce) {
  Form();
  Holds(2, 5, 7, "an earlier copy is in use");
  for (const int session : {1, 3}) {
    const std::vector<SendSaved> freed = All<SendSaved>(Holds(session, 5));
    ASSERT_THAT(freed, SizeIs(1));
    EXPECT_EQ(freed[0].session, SessionId(session));
    EXPECT_FALSE(freed[0].written);
  }
  Holds(1, 10);
  Holds(2, 10);
  EXPECT_THAT(All<SaveState>(Holds(3, 10)), SizeIs(1));
}

// A worker that still waits for the others' copies has none of the next step.
TEST_F(MembershipStateTest, OnHolds_ALaterStepIsDeclined_CopiesOfThisOneAreSaved) {
  Form();
  Holds(1, 5);
  EXPECT_THAT(All<SendSaved>(Holds(1, 7, 7, "the copy before step 5 is still in use")), IsEmpty());
  Holds(2, 5);
  EXPECT_THAT(All<SaveState>(Holds(3, 5)), SizeIs(1));
}

TEST_F(MembershipStateTest, OnHolds_SeveralStepsAreDeclined_LateCopiesOfEachAreFreed) {
  Form();
  for (const uint64_t step : {5, 7}) Holds(2, step, 7, "an earlier copy is in use");
  const std::vector<SendSaved> freed = All<SendSaved>(Holds(1, 5));
  ASSERT_THAT(freed, SizeIs(1));
  EXPECT_EQ(freed[0].step, Step(5));
  EXPECT_FALSE(freed[0].written);
  EXPECT_THAT(All<SendSaved>(Holds(1, 7)), SizeIs(1));
}

// The step before the copy may be computed again.
TEST_F(MembershipStateTest, OnHolds_DeclinedInAnEarlierView_CountsInThisOne) {
  Form();
  Holds(2, 5, 7, "an earlier copy is in use");
  Broke(3);
  generation_ = 2;
  Holds(1, 5);
  EXPECT_THAT(All<SaveState>(Holds(2, 5)), SizeIs(1));
}

// A section with one tensor for each name, and digests of the tensors that all workers have alike.
// The second of these digests differs at one worker, unless the copies are sound.
class NamedTensorTest : public MembershipStateTest {
 protected:
  Outcome HoldAll(const std::vector<std::string>& names, uint32_t digests, uint64_t step,
                  bool sound) {
    v1::Holds holds;
    holds.set_step(step);
    holds.set_generation(1);
    for (const std::string& name : names) {
      v1::StateSection& section = *holds.add_sections();
      section.set_name(name);
      section.add_tensors()->set_key(absl::StrCat(name, " tensor"));
    }
    Outcome outcome;
    for (int session = 1; session <= 3; ++session) {
      holds.clear_digests();
      for (uint32_t tensor = 0; tensor < digests; ++tensor) {
        v1::TensorDigest& digest = *holds.add_digests();
        digest.set_tensor(tensor);
        digest.set_digest(!sound && tensor == 1 && session == 2 ? 8 : 7);
      }
      outcome = membership_.OnHolds(SessionId(session), holds, now_);
    }
    return outcome;
  }
  std::string CauseOfLoss(const std::vector<std::string>& names, uint32_t digests,
                          uint64_t step = 5) {
    if (step == 5) Form();
    const std::vector<TellLoss> losses = All<TellLoss>(HoldAll(names, digests, step, false));
    EXPECT_THAT(losses, SizeIs(1));
    return losses.empty() ? "" : losses[0].cause;
  }
};

TEST_F(NamedTensorTest, OnHolds_TensorsOfRanksHaveNoDigests_NamesTheRightOne) {
  EXPECT_THAT(CauseOfLoss({"model", "ranks", "outer", "residuals", "program"}, 2),
              HasSubstr("'outer tensor' of section outer"));
}

TEST_F(NamedTensorTest, OnHolds_TensorOfRanksIsInCommonAndProgramsHaveTheirOwn_NamesTheFirst) {
  EXPECT_THAT(CauseOfLoss({"model", "ranks", "program"}, 2),
              HasSubstr("'ranks tensor' of section ranks"));
}

// As frozen buffers, where each rank has other buffers of its own.
TEST_F(NamedTensorTest, OnHolds_FirstTensorOfRanksIsInCommon_NamesIt) {
  EXPECT_THAT(CauseOfLoss({"model", "ranks", "ranks", "outer"}, 3),
              HasSubstr("'ranks tensor' of section ranks"));
}

TEST_F(NamedTensorTest, OnHolds_SecondCopyDiffers_NamesTheRightOneAsWell) {
  const std::vector<std::string> names = {"model", "ranks", "outer"};
  Form();
  ASSERT_THAT(All<SaveState>(HoldAll(names, 2, 5, true)), SizeIs(1));
  EXPECT_THAT(CauseOfLoss(names, 2, 10), HasSubstr("'outer tensor' of section outer"));
}

TEST_F(NamedTensorTest, OnHolds_ResidualsHaveNoDigests_NamesTheTensorAfterRanks) {
  EXPECT_THAT(CauseOfLoss({"model", "ranks", "codec", "residuals"}, 3),
              HasSubstr("'ranks tensor' of section ranks"));
}

TEST_F(MembershipStateTest, OnHolds_MomentumOfOneDiffers_ItIsLost) {
  Form();
  Holds(1, 5);
  Holds(2, 5, 8);
  const Outcome outcome = Holds(3, 5);
  EXPECT_THAT(All<SaveState>(outcome), IsEmpty());
  const std::vector<TellLoss> losses = All<TellLoss>(outcome);
  ASSERT_THAT(losses, SizeIs(1));
  EXPECT_THAT(losses[0].ranks, ::testing::ElementsAre(Rank(1)));
  EXPECT_THAT(losses[0].cause, HasSubstr("its state differs from the others' before step 5, first "
                                         "in 'fc1.weight/momentum_buffer' of section optimizer"));
  EXPECT_THAT(All<SendSaved>(outcome), SizeIs(3));
}

TEST_F(MembershipStateTest, OnHolds_StateOfASealedStepDiffers_SaysThatItHasNoCheckpoint) {
  Form();
  for (uint64_t step = 0; step <= 5; ++step) {
    for (int session = 1; session <= 3; ++session) Ready(session, step);
  }
  Holds(1, 5);
  Holds(2, 5, 8);
  const std::vector<TellNoCheckpoint> told = All<TellNoCheckpoint>(Holds(3, 5));
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].step, Step(5));
  EXPECT_EQ(told[0].why, "the workers' states differ");
}

TEST_F(MembershipStateTest, OnHolds_AllDiffer_EndsTheRun) {
  Form();
  Holds(1, 5, 1);
  Holds(2, 5, 2);
  const std::vector<EndRun> ends = All<EndRun>(Holds(3, 5, 3));
  ASSERT_THAT(ends, SizeIs(1));
  EXPECT_THAT(std::string(ends[0].status.message()), HasSubstr("the workers' states differ"));
}

TEST_F(MembershipStateTest, NextView_FreesCopiesOfAStepThatNotAllHold) {
  Form();
  Holds(1, 5);
  const Outcome outcome = Broke(3);
  EXPECT_THAT(All<SendSaved>(outcome), SizeIs(1));
  EXPECT_THAT(All<FormRun>(outcome), SizeIs(1));
}

TEST_F(MembershipStateTest, NextView_BeginsAfterAStepThatNotAllHold_SaysThatItHasNoCheckpoint) {
  Form();
  for (uint64_t step = 0; step <= 5; ++step) {
    for (int session = 1; session <= 3; ++session) Ready(session, step);
  }
  for (const int session : {1, 2}) Holds(session, 5);
  const Outcome outcome = Broke(3);
  const std::vector<TellNoCheckpoint> told = All<TellNoCheckpoint>(outcome);
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].step, Step(5));
  EXPECT_EQ(told[0].why, "a new view began before all workers had a copy");
  EXPECT_THAT(outcome.why, HasSubstr("no checkpoint before step 5: a new view began"));
  EXPECT_TRUE(outcome.warns);
}

TEST_F(MembershipStateTest, NextView_BeginsWithTheStepThatNotAllHold_ItIsCopiedAgain) {
  Form();
  for (uint64_t step = 0; step <= 4; ++step) {
    for (int session = 1; session <= 3; ++session) Ready(session, step);
  }
  Holds(1, 5);
  EXPECT_THAT(All<TellNoCheckpoint>(Broke(3)), IsEmpty());
  generation_ = 2;
  Holds(1, 5);
  EXPECT_THAT(All<SaveState>(Holds(2, 5)), SizeIs(1));
}

TEST_F(MembershipStateTest, OnSaveRequest_NamesAStepThatNobodyHasBegun) {
  Form();
  StepsDone(2, 7);
  const std::vector<SendSave> sends = All<SendSave>(membership_.OnSaveRequest());
  ASSERT_THAT(sends, SizeIs(3));
  EXPECT_EQ(sends[0].step, Step(10));
}

// Also if no rank tells of its steps.
TEST_F(MembershipStateTest, OnSaveRequest_StepsAreSealed_NamesAStepBehindTheOpenOne) {
  Form();
  for (const uint64_t step : {0, 1}) {
    for (int session = 1; session <= 3; ++session) Ready(session, step);
  }
  const std::vector<SendSave> sends = All<SendSave>(membership_.OnSaveRequest());
  ASSERT_THAT(sends, SizeIs(3));
  EXPECT_EQ(sends[0].step, Step(5));
}

TEST_F(MembershipStateTest, OnSaved_TellsAll) {
  Form();
  const std::vector<SendSaved> sends =
      All<SendSaved>(membership_.OnSaved(Step(5), Generation(7), true));
  ASSERT_THAT(sends, SizeIs(3));
  EXPECT_EQ(sends[2].step, Step(5));
  EXPECT_EQ(sends[2].generation, Generation(7));
  EXPECT_TRUE(sends[2].written);
}

// Of a run that waits if it has fewer than all of its workers.
class PausingStateTest : public MembershipStateTest {
 protected:
  static MembershipConfig Pausing() {
    MembershipConfig config = Keeping();
    config.min_workers = 3;
    config.pause_timeout = absl::Seconds(60);
    return config;
  }
  PausingStateTest() : MembershipStateTest(Pausing()) {}
};

TEST_F(PausingStateTest, OnHolds_WhileTheRunWaits_IsFreedAtOnce) {
  Form();
  for (int session = 1; session <= 3; ++session) Ready(session, 0);
  Broke(3);
  ASSERT_EQ(membership_.Status().state(), "paused");
  const std::vector<SendSaved> sends = All<SendSaved>(Holds(1, 5));
  ASSERT_THAT(sends, SizeIs(1));
  EXPECT_EQ(sends[0].session, SessionId(1));
  EXPECT_EQ(sends[0].step, Step(5));
  EXPECT_FALSE(sends[0].written);
}

TEST_F(MembershipStateTest, OnHello_StateThatCannotBeKept_IsRefused) {
  v1::Hello hello = TestHello(1);
  hello.set_cannot_checkpoint("ranks keep residuals");
  EXPECT_EQ(
      Refusal(membership_.OnHello(SessionId(1), hello, now_)),
      absl::InvalidArgumentError("--run-dir: got a run without checkpoints: ranks keep residuals"));
}

using PlainMembershipTest = testing::MembershipFixture;

TEST_F(PlainMembershipTest, OnHolds_RunWithoutCheckpoints_BreaksTheProtocol) {
  Form();
  EXPECT_THAT(All<EndRun>(membership_.OnHolds(SessionId(1), {}, now_)), SizeIs(1));
  EXPECT_THAT(membership_.OnSaveRequest().actions, IsEmpty());
}

MembershipConfig Resuming() {
  MembershipConfig config = Keeping();
  ResumedRun run;
  run.step = Step(20);
  run.settings = {{"lr", "0.1"}, {"seed", "744"}, {"epochs", "3"}, {"wire", "fp32"}};
  run.threads = 2;
  run.environment = {{"blas", "OpenBLAS"}};
  run.total_steps = 30;
  run.steps_per_epoch = 10;
  config.resumed = run;
  return config;
}

class ResumedMembershipTest : public MembershipStateTest {
 protected:
  ResumedMembershipTest() : MembershipStateTest(Resuming()) {}

  static v1::Hello HelloOf(int session, const std::map<std::string, std::string>& settings) {
    v1::Hello hello = TestHello(static_cast<uint64_t>(session));
    (*hello.mutable_settings())["epochs"] = "3";
    (*hello.mutable_settings())["wire"] = "fp32";
    for (const auto& [name, value] : settings) (*hello.mutable_settings())[name] = value;
    return hello;
  }
  Outcome Join(int session, const std::map<std::string, std::string>& settings = {}) {
    return membership_.OnHello(SessionId(session), HelloOf(session, settings), now_);
  }
};

TEST_F(ResumedMembershipTest, View_BeginsWithTheCheckpointsStepAndThreads) {
  Join(1);
  Join(2);
  const View view = All<SendView>(Join(3)).at(0).view;
  EXPECT_EQ(view.first_step, Step(20));
  EXPECT_EQ(view.threads, 2);
  EXPECT_EQ(membership_.Status().ranks(0).steps_done(), 20);
  v1::Ready ready;
  ready.set_step(20);
  ready.set_generation(1);
  for (int session = 1; session <= 2; ++session) {
    EXPECT_THAT(membership_.OnReady(SessionId(session), ready, now_).actions, IsEmpty());
  }
  EXPECT_THAT(All<SendSealed>(membership_.OnReady(SessionId(3), ready, now_)), SizeIs(3));
}

TEST_F(ResumedMembershipTest, OnHello_SettingThatChangesTheResult_IsRefusedWithBothValues) {
  EXPECT_EQ(Refusal(Join(1, {{"seed", "1"}})),
            absl::InvalidArgumentError(
                "resume: setting 'seed': got 1, expected 744, as in the checkpoint"));
  EXPECT_EQ(Refusal(Join(1, {{"nesterov", "true"}})),
            absl::InvalidArgumentError("resume: setting 'nesterov': got true, expected its "
                                       "default, as in the checkpoint"));
}

TEST_F(ResumedMembershipTest, OnHello_OtherThreads_IsRefused) {
  v1::Hello hello = HelloOf(1, {});
  hello.set_threads(3);
  EXPECT_EQ(Refusal(membership_.OnHello(SessionId(1), hello, now_)),
            absl::InvalidArgumentError(
                "resume: setting 'threads': got 3, expected 2, as in the checkpoint"));
}

TEST_F(ResumedMembershipTest, OnHello_EpochsMayBeRaisedButNotBelowTheCheckpoint) {
  EXPECT_EQ(Refusal(Join(1, {{"epochs", "1"}})),
            absl::InvalidArgumentError(
                "resume: setting 'epochs': got 1, expected 3, as in the checkpoint or more: that "
                "is 10 steps, and the checkpoint has 20"));
  EXPECT_THAT(Join(1, {{"epochs", "9"}}).actions, IsEmpty());
}

TEST_F(ResumedMembershipTest, OnHello_OtherBlas_IsNamedInTheLog) {
  v1::Hello hello = HelloOf(1, {});
  (*hello.mutable_environment())["blas"] = "reference BLAS";
  const Outcome outcome = membership_.OnHello(SessionId(1), hello, now_);
  EXPECT_THAT(outcome.why,
              HasSubstr("the bits of this run may change: its blas is 'reference BLAS', "
                        "and that of the checkpoint was 'OpenBLAS'"));
  EXPECT_TRUE(outcome.warns);
}

ResumedRun RunWith(Settings settings) {
  ResumedRun run = *Resuming().resumed;
  run.settings.insert(settings.begin(), settings.end());
  return run;
}

v1::Hello HelloWith(const Settings& settings, const std::string& name, const std::string& value) {
  v1::Hello hello;
  for (const auto& [key, text] : settings) (*hello.mutable_settings())[key] = text;
  (*hello.mutable_settings())[name] = value;
  return hello;
}

TEST(CheckResumedTest, AsManyStepsAsTheCheckpointHas_IsAccepted) {
  const ResumedRun run = RunWith({});
  EXPECT_TRUE(CheckResumed(HelloWith(run.settings, "epochs", "2"), run).ok());
}

TEST(HasNoStepLeftTest, IsSoOnlyIfTheSettingsEndWithTheCheckpoint) {
  const ResumedRun run = RunWith({});  // before step 20, of 30
  EXPECT_TRUE(HasNoStepLeft({{"epochs", "2"}}, run));
  EXPECT_TRUE(HasNoStepLeft({{"epochs", "3"}, {"iterations", "20"}}, run));
  EXPECT_FALSE(HasNoStepLeft({{"epochs", "3"}}, run));
  EXPECT_FALSE(HasNoStepLeft({}, run));
}

TEST(CheckResumedTest, MoreEpochs_WhereTheEndMatters_IsRefused) {
  const ResumedRun cosine = RunWith({{"lr-schedule", "cosine"}});
  EXPECT_THAT(
      std::string(CheckResumed(HelloWith(cosine.settings, "epochs", "4"), cosine).message()),
      HasSubstr("each learning rate depends on the last step"));
  const ResumedRun local = RunWith({{"sync", "local-sgd:8"}});
  EXPECT_THAT(std::string(CheckResumed(HelloWith(local.settings, "epochs", "4"), local).message()),
              HasSubstr("the last step has an exchange of its own"));
  EXPECT_TRUE(CheckResumed(HelloWith(local.settings, "epochs", "3"), local).ok());
  const ResumedRun diloco = RunWith({{"sync", "diloco:8"}});
  EXPECT_THAT(
      std::string(CheckResumed(HelloWith(diloco.settings, "epochs", "4"), diloco).message()),
      HasSubstr("the last step has an exchange of its own"));
}

TEST(CheckResumedTest, BackEnds_ThatFoldInFloat32_MayBeExchanged) {
  const ResumedRun ring = RunWith({{"backend", "ring"}});
  EXPECT_TRUE(CheckResumed(HelloWith(ring.settings, "backend", "coordinator"), ring).ok());
  EXPECT_FALSE(CheckResumed(HelloWith(ring.settings, "backend", "tree"), ring).ok());
  ResumedRun half = ring;
  half.settings["wire"] = "bf16";
  EXPECT_FALSE(CheckResumed(HelloWith(half.settings, "backend", "coordinator"), half).ok());
}

TEST(CheckResumedTest, BackEnds_EachThatFoldsAlike_MayFollowEachOther) {
  const std::vector<std::string> alike = {"auto", "coordinator", "memory", "ring", "sharded"};
  for (const std::string& before : alike) {
    const ResumedRun run = RunWith({{"backend", before}});
    for (const std::string& then : alike) {
      EXPECT_TRUE(CheckResumed(HelloWith(run.settings, "backend", then), run).ok())
          << then << " after " << before;
    }
  }
  const ResumedRun tree = RunWith({{"backend", "tree"}});
  EXPECT_FALSE(CheckResumed(HelloWith(tree.settings, "backend", "ring"), tree).ok());
  EXPECT_TRUE(CheckResumed(HelloWith(tree.settings, "backend", "tree"), tree).ok());
}

// As of a program on the library.
TEST(CheckResumedTest, WorkersThatTellNoLength_AreAccepted) {
  ResumedRun run = RunWith({});
  run.settings.erase("epochs");
  EXPECT_EQ(CheckResumed(HelloWith(run.settings, "groups", "2"), run), absl::OkStatus());
}

TEST(CheckResumedTest, BucketSize_CutsUnitsOfCodecs) {
  for (const char* codec : {"none", "int8"}) {
    const ResumedRun run = RunWith({{"compress", codec}, {"bucket-cap-mb", "1"}});
    const absl::Status resumed = CheckResumed(HelloWith(run.settings, "bucket-cap-mb", "2"), run);
    EXPECT_EQ(resumed.ok(), std::string(codec) == "none") << resumed;
  }
}

TEST(CheckResumedTest, SettingsThatChangeNoBit_MayDiffer) {
  for (const char* name :
       {"check-replicas", "connections", "evaluate", "evaluate-every", "groups"}) {
    const ResumedRun run = RunWith({});
    const absl::Status resumed = CheckResumed(HelloWith(run.settings, name, "7"), run);
    EXPECT_TRUE(resumed.ok()) << resumed;
  }
}

TEST(CheckResumedTest, Iterations_GoBeforeEpochsAndNotBelowTheCheckpoint) {
  const ResumedRun run = RunWith({{"iterations", "30"}});
  const auto resumed = [&run](const char* iterations) {
    return CheckResumed(HelloWith(run.settings, "iterations", iterations), run);
  };
  EXPECT_EQ(resumed("19"),
            absl::InvalidArgumentError(
                "resume: setting 'iterations': got 19, expected 30, as in the checkpoint or more: "
                "that is 19 steps, and the checkpoint has 20"));
  EXPECT_TRUE(resumed("20").ok());
  EXPECT_TRUE(resumed("45").ok());
}

}  // namespace
}  // namespace gradwire
