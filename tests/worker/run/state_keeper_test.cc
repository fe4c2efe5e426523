// The last copy of a worker's state: which one the coordinator gets, and how long the worker waits;
// and what is restored in a run that was resumed.
#include "worker/run/state_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/rpc/grpc_server.h"
#include "common/state_transfer/state_service.h"

namespace gradwire {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kLastStep = 8;
constexpr uint64_t kAskedStep = 5;
constexpr int64_t kStepsPerEpoch = 3;
constexpr absl::Duration kLongWait = absl::Minutes(5);

// An owner with one tensor, whose value is the number of its copies.
class CountingOwner : public StateOwner {
 public:
  bool IsAtBorder() const override { return true; }
  std::vector<StateTensorRef> Copy() override {
    return {{"model", "weight", torch::full({1}, ++copies_), true}};
  }
  absl::Status RestoreCommon(const StateReader&) override { return absl::OkStatus(); }
  absl::Status RestoreOwn(const StateReader&) override { return absl::OkStatus(); }

 private:
  int copies_ = 0;
};

// A keeper of a run of kLastStep steps. Its member has not joined, so the coordinator's part is the
// test's: it writes copies of generation `written_` at once, and ignores all others.
class StateKeeperTest : public ::testing::Test {
 protected:
  StateKeeperTest() {
    MemberOptions options;
    options.endpoint.coordinator = "127.0.0.1:1";
    options.endpoint.listen = "127.0.0.1:0";
    member_ = RunMember::Create(options).value();
    StateKeeper::Run run{0, kLastStep, kStepsPerEpoch};
    run.optimizer = [](Step step) {
      v1::OptimizerConfig config;
      config.set_name(std::to_string(step.value()));
      return config;
    };
    keeper_ = std::make_unique<StateKeeper>(&owner_, std::move(run), member_.get(), &held_);
  }
  ~StateKeeperTest() override { held_.Finish(); }

  static View ViewOf(uint64_t generation) {
    View view;
    view.generation = Generation(generation);
    view.first_step = Step(generation == 1 ? 0 : kLastStep);
    view.keeps_state = true;
    return view;
  }
  void OnHolds(const v1::Holds& holds) {
    EXPECT_THAT(holds.step(), AnyOf(kAskedStep, kLastStep));
    reported_.push_back(holds.generation());
    last_reported_ = holds;
    if (holds.generation() == written_) Release(holds.generation(), true);
  }
  // The coordinator has written the last copy, or gives it up.
  void Release(uint64_t generation, bool written) {
    v1::Saved saved;
    saved.set_step(last_reported_.step());
    saved.set_generation(generation);
    saved.set_written(written);
    held_.Release(saved);
  }
  // Returns the generations of all copies that were reported.
  std::vector<uint64_t> Reported() {
    held_.Finish();
    return reported_;
  }

  uint64_t written_ = 1;
  std::vector<uint64_t> reported_;  // written by a thread of `held_`
  v1::Holds last_reported_;         // the same
  CountingOwner owner_;
  std::unique_ptr<RunMember> member_;
  HeldState held_{[this](const v1::Holds& holds) { OnHolds(holds); }};
  std::unique_ptr<StateKeeper> keeper_;
};

TEST_F(StateKeeperTest, AwaitLast_CopyOfThisView_MakesNoOther) {
  const View view = ViewOf(1);
  keeper_->BeforeStep(Step(kLastStep), view);
  EXPECT_EQ(keeper_->AwaitLast(Step(kLastStep), view, kLongWait), absl::OkStatus());
  EXPECT_THAT(Reported(), ElementsAre(1));
}

// The run continues after a loss behind the last step, so no step would begin with a copy. The
// coordinator has given the copy up.
TEST_F(StateKeeperTest, AwaitLast_CopyOfAnEarlierViewWasGivenUp_CopiesAgain) {
  written_ = 2;
  keeper_->BeforeStep(Step(kLastStep), ViewOf(1));
  held_.Finish();
  Release(1, false);
  keeper_->OnView(ViewOf(2));
  EXPECT_EQ(keeper_->AwaitLast(Step(kLastStep), ViewOf(2), absl::Seconds(30)), absl::OkStatus());
  EXPECT_THAT(Reported(), ElementsAre(1, 2));
  EXPECT_FALSE(held_.step().has_value()) << "it was not written";
}

// The same, but the coordinator gives it up later.
TEST_F(StateKeeperTest, AwaitLast_CopyOfAnEarlierViewIsGivenUp_CopiesAgain) {
  written_ = 2;
  keeper_->BeforeStep(Step(kLastStep), ViewOf(1));
  held_.Finish();
  keeper_->OnView(ViewOf(2));
  auto waits = std::async(std::launch::async, [this] {
    return keeper_->AwaitLast(Step(kLastStep), ViewOf(2), absl::Seconds(30));
  });
  Release(1, false);
  EXPECT_EQ(waits.get(), absl::OkStatus());
  EXPECT_THAT(Reported(), ElementsAre(1, 2));
  EXPECT_FALSE(held_.step().has_value()) << "it was not written";
}

// The coordinator is fetching it when the loss comes.
TEST_F(StateKeeperTest, AwaitLast_CopyOfAnEarlierViewIsInUse_StaysUntilItIsWritten) {
  written_ = 0;
  const View first = ViewOf(1);
  keeper_->BeforeStep(Step(kLastStep), first);
  held_.Finish();
  keeper_->OnView(ViewOf(2));
  EXPECT_EQ(keeper_->AwaitLast(Step(kLastStep), ViewOf(2), absl::Milliseconds(200)),
            absl::OkStatus());
  EXPECT_TRUE(held_.Find(first.run_id, Step(kLastStep), Generation(1)).ok());
  Release(1, true);
  EXPECT_THAT(Reported(), ElementsAre(1));
}

// An export needs them, and the learning rate is that of the step that would come next.
TEST_F(StateKeeperTest, BeforeStep_StepThatWasAskedFor_CopyNamesTheRunAndTheOptimizerOfThatStep) {
  written_ = 0;
  keeper_->Ask(Step(kAskedStep));
  for (uint64_t step = kAskedStep - 1; step <= kAskedStep + 1; ++step) {
    keeper_->BeforeStep(Step(step), ViewOf(1));
  }
  EXPECT_THAT(Reported(), ElementsAre(1));
  EXPECT_EQ(last_reported_.step(), kAskedStep);
  EXPECT_EQ(last_reported_.total_steps(), kLastStep);
  EXPECT_EQ(last_reported_.steps_per_epoch(), static_cast<uint64_t>(kStepsPerEpoch));
  EXPECT_EQ(last_reported_.optimizer().name(), std::to_string(kAskedStep));
}

TEST_F(StateKeeperTest, IsBorder_StepsBeforeACopy_Alone) {
  keeper_->Ask(Step(kAskedStep));
  std::vector<uint64_t> borders;
  for (uint64_t step = 0; step < kLastStep; ++step) {
    if (keeper_->IsBorder(Step(step))) borders.push_back(step);
  }
  EXPECT_THAT(borders, ElementsAre(kAskedStep - 1, kLastStep - 1));
}

TEST_F(StateKeeperTest, BeforeStep_LastWhileAnEarlierCopyIsInUse_ReplacesIt) {
  written_ = 0;
  keeper_->Ask(Step(kAskedStep));
  keeper_->BeforeStep(Step(kAskedStep), ViewOf(1));
  EXPECT_EQ(held_.step(), Step(kAskedStep));
  keeper_->BeforeStep(Step(kLastStep), ViewOf(1));
  EXPECT_EQ(held_.step(), Step(kLastStep));
  EXPECT_THAT(Reported(), ElementsAre(1, 1));
  EXPECT_EQ(last_reported_.declined(), "");
}

TEST_F(StateKeeperTest, AwaitLast_NoCopyYet_Copies) {
  EXPECT_EQ(keeper_->AwaitLast(Step(kLastStep), ViewOf(1), kLongWait), absl::OkStatus());
  EXPECT_THAT(Reported(), ElementsAre(1));
}

TEST_F(StateKeeperTest, AwaitLast_RunKeepsNoState_CopiesNothing) {
  View view = ViewOf(1);
  view.keeps_state = false;
  EXPECT_EQ(keeper_->AwaitLast(Step(kLastStep), view, kLongWait), absl::OkStatus());
  EXPECT_THAT(Reported(), IsEmpty());
}

TEST_F(StateKeeperTest, AwaitLast_CoordinatorDoesNotWrite_GivesTheCheckpointUp) {
  written_ = 0;
  const absl::Time begun = SteadyNow();
  EXPECT_EQ(keeper_->AwaitLast(Step(kLastStep), ViewOf(1), absl::Milliseconds(200)),
            absl::OkStatus());
  EXPECT_GE(SteadyNow() - begun, absl::Milliseconds(200));
}

TEST_F(StateKeeperTest, AwaitLast_RunEnds_SaysHow) {
  written_ = 0;
  const absl::Status end = absl::CancelledError("signal 15");
  member_->Stop(end);
  EXPECT_EQ(keeper_->AwaitLast(Step(kLastStep), ViewOf(1), kLongWait), end);
}

// An owner with one tensor, which it restores.
class RestoredOwner : public CountingOwner {
 public:
  absl::Status RestoreCommon(const StateReader& reader) override {
    ++common;
    return reader.Get("model", "weight", weight);
  }
  absl::Status RestoreOwn(const StateReader& reader) override {
    ++own;
    return reader.Get("model", "weight", weight);
  }

  torch::Tensor weight = torch::zeros({1});
  int common = 0, own = 0;
};

// A keeper with a copy before each step. The coordinator has a checkpoint before kAskedStep, and
// one before kLastStep.
class ResumedKeeperTest : public ::testing::Test {
 protected:
  ResumedKeeperTest() {
    server_ = StartGrpcServer("127.0.0.1:0", {&service_}).value();
    MemberOptions options;
    options.endpoint.coordinator = server_.address;
    options.endpoint.listen = "127.0.0.1:0";
    member_ = RunMember::Create(options).value();
    StateKeeper::Run run{1, kLastStep, kStepsPerEpoch};
    run.optimizer = [](Step) { return v1::OptimizerConfig(); };
    keeper_ = std::make_unique<StateKeeper>(&owner_, std::move(run), member_.get(), &held_);
  }
  ~ResumedKeeperTest() override {
    held_.Finish();
    keeper_.reset();
    member_.reset();
    server_.Shutdown();
  }

  static absl::StatusOr<std::shared_ptr<SharedState>> StateBefore(Step step) {
    if (step != Step(kAskedStep) && step != Step(kLastStep)) {
      return absl::FailedPreconditionError("there is no such checkpoint");
    }
    const auto value = static_cast<float>(step.value());
    std::shared_ptr<SharedState> state = std::make_shared<StateCopy>(
        std::vector<StateTensorRef>{{"model", "weight", torch::full({1}, value), true}});
    return state;
  }
  void Release(uint64_t step, uint64_t generation, bool written) {
    v1::Saved saved;
    saved.set_step(step);
    saved.set_generation(generation);
    saved.set_written(written);
    held_.Release(saved);
  }
  View ViewFrom(uint64_t first) const {
    View view;
    view.run_id = run_id_;
    view.generation = Generation(1);
    view.first_step = Step(first);
    view.keeps_state = true;
    return view;
  }

  const RunId run_id_ = MakeRunId();
  StateService service_{[](const RunId&, Step step, Generation) { return StateBefore(step); }};
  GrpcServer server_;
  RestoredOwner owner_;
  std::unique_ptr<RunMember> member_;
  HeldState held_{[](const v1::Holds&) {}};
  std::unique_ptr<StateKeeper> keeper_;
};

// After a loss in the first step, ranks are adopted that nobody has trained; after one in a later
// step, those that are carried have been trained further than the checkpoint.
TEST_F(ResumedKeeperTest, ResumeRanks_InLaterViews_OnlyWhileTheFirstStepIsNotDone) {
  ASSERT_EQ(keeper_->Resume(ViewFrom(kAskedStep)), absl::OkStatus());
  EXPECT_EQ(owner_.common, 1);
  EXPECT_EQ(owner_.weight.item<float>(), static_cast<float>(kAskedStep));
  std::vector<int> restored;
  for (const uint64_t first : {kAskedStep, kAskedStep, kAskedStep + 1, kLastStep}) {
    EXPECT_EQ(keeper_->ResumeRanks(ViewFrom(first)), absl::OkStatus());
    restored.push_back(owner_.own);
  }
  EXPECT_THAT(restored, ElementsAre(1, 2, 2, 2));
  EXPECT_EQ(owner_.common, 1);
}

TEST_F(ResumedKeeperTest, ResumeRanks_RunBeganAtStep0_RestoresNothing) {
  EXPECT_EQ(keeper_->Resume(ViewFrom(0)), absl::OkStatus());
  EXPECT_EQ(keeper_->ResumeRanks(ViewFrom(0)), absl::OkStatus());
  EXPECT_EQ(owner_.common + owner_.own, 0);
}

// Many workers connect at once, and an attempt may fail.
TEST_F(ResumedKeeperTest, Resume_CoordinatorAnswersLater_Waits) {
  const std::string address = server_.address;
  server_.Shutdown();
  auto resumed =
      std::async(std::launch::async, [this] { return keeper_->Resume(ViewFrom(kAskedStep)); });
  EXPECT_EQ(resumed.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  StateService later([](const RunId&, Step step, Generation) { return StateBefore(step); });
  server_ = StartGrpcServer(address, {&later}).value();
  EXPECT_EQ(resumed.get(), absl::OkStatus());
  server_.Shutdown();
}

TEST_F(ResumedKeeperTest, Resume_NoSuchCheckpoint_SaysSoAndRestoresNothing) {
  const absl::Status missing = keeper_->Resume(ViewFrom(kAskedStep + 1));
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition) << missing;
  EXPECT_EQ(owner_.common, 0);
}

TEST_F(ResumedKeeperTest, BeforeStep_StepOfTheCheckpoint_IsNotCopiedButTheNext) {
  ASSERT_EQ(keeper_->Resume(ViewFrom(kAskedStep)), absl::OkStatus());
  keeper_->BeforeStep(Step(kAskedStep), ViewFrom(kAskedStep));
  ASSERT_FALSE(held_.step().has_value());
  keeper_->BeforeStep(Step(kAskedStep + 1), ViewFrom(kAskedStep));
  EXPECT_EQ(held_.step(), Step(kAskedStep + 1));
}

// As after an evaluation. The coordinator heeds only copies of the current view.
TEST_F(ResumedKeeperTest, BeforeStep_TwiceBeforeTheSame_IsCopiedOnceInEachView) {
  View view = ViewFrom(0);
  keeper_->BeforeStep(Step(2), view);
  ASSERT_EQ(held_.step(), Step(2));
  Release(2, 1, /*written=*/true);
  keeper_->BeforeStep(Step(2), view);
  ASSERT_FALSE(held_.step().has_value());
  keeper_->BeforeStep(Step(3), view);
  keeper_->BeforeStep(Step(3), view);  // which does not decline it either
  EXPECT_EQ(held_.step(), Step(3));
  Release(3, 1, /*written=*/false);
  view.generation = Generation(2);
  keeper_->BeforeStep(Step(3), view);
  EXPECT_EQ(held_.step(), Step(3));
}

TEST_F(ResumedKeeperTest, AwaitLast_AllStepsWereDoneBefore_CopiesNothing) {
  ASSERT_EQ(keeper_->Resume(ViewFrom(kLastStep)), absl::OkStatus());
  EXPECT_EQ(keeper_->AwaitLast(Step(kLastStep), ViewFrom(kLastStep), absl::ZeroDuration()),
            absl::OkStatus());
  EXPECT_FALSE(held_.step().has_value());
}

TEST_F(ResumedKeeperTest, AwaitLast_StepsWereDoneSince_Copies) {
  ASSERT_EQ(keeper_->Resume(ViewFrom(kAskedStep)), absl::OkStatus());
  EXPECT_EQ(keeper_->AwaitLast(Step(kLastStep), ViewFrom(kAskedStep), absl::ZeroDuration()),
            absl::OkStatus());
  EXPECT_EQ(held_.step(), Step(kLastStep));
}

}  // namespace
}  // namespace gradwire
