// The last copy of a worker's state: which one the coordinator gets, and how long the worker waits.
#include "worker/run/state_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "common/base/clock.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kLastStep = 8;
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
    StateKeeper::Run run{0, kLastStep};
    run.optimizer = [](Step) { return v1::OptimizerConfig(); };
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
    EXPECT_EQ(holds.step(), kLastStep);
    reported_.push_back(holds.generation());
    if (holds.generation() == written_) held_.Release(Step(holds.step()), true);
  }
  // Returns the generations of all copies that were reported.
  std::vector<uint64_t> Reported() {
    held_.Finish();
    return reported_;
  }

  uint64_t written_ = 1;
  std::vector<uint64_t> reported_;  // written by a thread of `held_`
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
// coordinator heeds only copies of the current view.
TEST_F(StateKeeperTest, AwaitLast_CopyOfAnEarlierView_CopiesAgain) {
  written_ = 2;
  keeper_->BeforeStep(Step(kLastStep), ViewOf(1));
  keeper_->OnView(ViewOf(2));
  EXPECT_EQ(keeper_->AwaitLast(Step(kLastStep), ViewOf(2), absl::Seconds(10)), absl::OkStatus());
  EXPECT_THAT(Reported(), ElementsAre(1, 2));
  EXPECT_FALSE(held_.step().has_value()) << "it was not written";
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

}  // namespace
}  // namespace gradwire
