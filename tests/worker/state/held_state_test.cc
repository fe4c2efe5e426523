#include "worker/state/held_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "common/base/clock.h"
#include "worker/state/checkpoint_schedule.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

class TinyCopy : public HeldCopy {
 public:
  TinyCopy() { catalog_.add_sections()->set_name("model"); }
  const v1::StateCatalog& catalog() const override { return catalog_; }
  absl::Status Read(const std::string&, const std::string&, uint64_t,
                    absl::Span<uint8_t>) override {
    return absl::OkStatus();
  }
  std::vector<TensorDigest> Digests() const override { return {{0, 17}, {1, 18}}; }

 private:
  v1::StateCatalog catalog_;
};

class HeldStateTest : public ::testing::Test {
 protected:
  // Holds the state before a step, in generation 2, and returns the report.
  v1::Holds Hold(uint64_t step) {
    v1::Holds holds;
    holds.set_step(step);
    holds.set_generation(2);
    held_.Hold(run_id_, std::make_shared<TinyCopy>(), holds);
    held_.Finish();
    return reported_;
  }

  void Release(uint64_t step, uint64_t generation, bool written) {
    v1::Saved saved;
    saved.set_step(step);
    saved.set_generation(generation);
    saved.set_written(written);
    held_.Release(saved);
  }

  const RunId run_id_ = MakeRunId();
  v1::Holds reported_;
  HeldState held_{[this](const v1::Holds& holds) { reported_ = holds; }};
};

TEST_F(HeldStateTest, Hold_ReportsStepAndDigests) {
  const v1::Holds holds = Hold(12);
  EXPECT_EQ(holds.step(), 12);
  EXPECT_EQ(holds.generation(), 2);
  ASSERT_EQ(holds.digests_size(), 2);
  EXPECT_EQ(holds.digests(1).tensor(), 1);
  EXPECT_EQ(holds.digests(1).digest(), 18);
  ASSERT_EQ(holds.sections_size(), 1);
  EXPECT_EQ(holds.sections(0).name(), "model");
}

TEST_F(HeldStateTest, Find_OnlyThisRunStepAndGeneration) {
  Hold(12);
  EXPECT_TRUE(held_.Find(run_id_, Step(12), Generation(2)).ok());
  EXPECT_EQ(held_.Find(MakeRunId(), Step(12), Generation(2)).status().code(),
            absl::StatusCode::kPermissionDenied);
  const absl::Status other = held_.Find(run_id_, Step(11), Generation(2)).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other.message()),
              HasSubstr("got step 11 of generation 2, expected step 12 of generation 2"));
  EXPECT_EQ(held_.Find(run_id_, Step(12), Generation(3)).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(HeldStateTest, Release_FreesOnlyThisCopy) {
  Hold(12);
  Release(11, 2, true);
  EXPECT_EQ(held_.step(), Step(12));
  Release(12, 1, false);
  EXPECT_EQ(held_.step(), Step(12));
  Release(12, 2, true);
  EXPECT_FALSE(held_.step().has_value());
  EXPECT_FALSE(held_.Find(run_id_, Step(12), Generation(2)).ok());
}

TEST_F(HeldStateTest, Drop_FreesStepsThatAreComputedAgain) {
  Hold(12);
  held_.Drop(Step(12));
  EXPECT_TRUE(held_.step().has_value());
  held_.Drop(Step(11));
  EXPECT_FALSE(held_.step().has_value());
}

TEST_F(HeldStateTest, AwaitRelease_SaysWhetherItWasWritten) {
  Hold(12);
  EXPECT_FALSE(held_.AwaitRelease(SteadyNow()).has_value());
  auto other = std::async(std::launch::async, [this] { Release(12, 2, true); });
  EXPECT_EQ(held_.AwaitRelease(SteadyNow() + absl::Seconds(30)), true);
  Hold(13);
  Release(13, 2, false);
  EXPECT_EQ(held_.AwaitRelease(SteadyNow()), false);
}

constexpr Generation kView(1);

TEST(CheckpointScheduleTest, IsDue_EveryFewStepsAndAtTheEnd) {
  CheckpointSchedule schedule(4, 10);
  EXPECT_FALSE(schedule.IsDue(Step(0)));
  EXPECT_FALSE(schedule.IsDue(Step(3)));
  EXPECT_TRUE(schedule.IsDue(Step(4)));
  EXPECT_TRUE(schedule.IsDue(Step(8)));
  EXPECT_TRUE(schedule.IsDue(Step(10)));
  EXPECT_FALSE(CheckpointSchedule(0, 10).IsDue(Step(4)));
}

TEST(CheckpointScheduleTest, Add_MakesOneStepDue) {
  CheckpointSchedule schedule(0, 10);
  schedule.Add(Step(5));
  EXPECT_FALSE(schedule.Take(Step(4), kView, true));
  EXPECT_TRUE(schedule.IsDue(Step(5)));
  EXPECT_TRUE(schedule.Take(Step(5), kView, true));
  EXPECT_FALSE(schedule.Take(Step(6), kView, true));
}

TEST(CheckpointScheduleTest, Add_TooLate_IsTakenByNobody) {
  CheckpointSchedule schedule(0, 10);
  EXPECT_FALSE(schedule.Take(Step(5), kView, true));
  EXPECT_FALSE(schedule.Add(Step(5)));
  EXPECT_TRUE(schedule.Add(Step(7)));
  EXPECT_EQ(schedule.view(), kView);
  EXPECT_FALSE(schedule.Take(Step(6), kView, true));
}

// Its updates run late, so the state before step 5 cannot be copied any more.
TEST(CheckpointScheduleTest, Add_StepThatIsDecided_IsRefused) {
  CheckpointSchedule schedule(0, 10);
  EXPECT_FALSE(schedule.Take(Step(4), kView, true));
  EXPECT_FALSE(schedule.IsDue(Step(5)));
  EXPECT_FALSE(schedule.Add(Step(5)));
  EXPECT_FALSE(schedule.Take(Step(5), kView, true));
  EXPECT_TRUE(schedule.Add(Step(7)));
}

// The other ranks may not have begun that step; all copy at the same border.
TEST(CheckpointScheduleTest, Add_StepBehindTheLastBorder_IsTakenAtTheNext) {
  CheckpointSchedule schedule(0, 10);
  EXPECT_FALSE(schedule.Take(Step(4), kView, true));
  EXPECT_FALSE(schedule.Take(Step(6), kView, false));
  EXPECT_FALSE(schedule.Add(Step(4)));
  EXPECT_TRUE(schedule.Add(Step(5)));
  EXPECT_FALSE(schedule.Take(Step(7), kView, false));
  EXPECT_TRUE(schedule.Take(Step(8), kView, true));
}

// The steps from 7 on are done again, so a copy before step 8 is not too late.
TEST(CheckpointScheduleTest, Add_StepThatALaterViewDoesAgain_IsTaken) {
  CheckpointSchedule schedule(0, 100);
  for (const int step : {5, 6, 7, 8, 9}) EXPECT_FALSE(schedule.Take(Step(step), kView, true));
  EXPECT_FALSE(schedule.Take(Step(7), Generation(2), true));
  EXPECT_TRUE(schedule.Add(Step(8)));
  EXPECT_TRUE(schedule.Take(Step(8), Generation(2), true));
}

TEST(CheckpointScheduleTest, Add_StepThatWasCopied_IsNoNewOne) {
  CheckpointSchedule schedule(4, 100);
  EXPECT_FALSE(schedule.Take(Step(3), kView, true));
  EXPECT_TRUE(schedule.Take(Step(4), kView, true));
  EXPECT_FALSE(schedule.Take(Step(5), kView, true));
  EXPECT_TRUE(schedule.Add(Step(4)));
  EXPECT_FALSE(schedule.Add(Step(5)));
  EXPECT_FALSE(schedule.Take(Step(6), kView, true));
}

TEST(CheckpointScheduleTest, Add_StepThatIsDueAndWillBeCopied_IsNoNewOne) {
  CheckpointSchedule schedule(4, 100);
  EXPECT_FALSE(schedule.Take(Step(3), kView, true));
  EXPECT_TRUE(schedule.IsDue(Step(4)));
  EXPECT_TRUE(schedule.Add(Step(4)));
  EXPECT_TRUE(schedule.Take(Step(4), kView, true));
  EXPECT_FALSE(schedule.Take(Step(5), kView, true));
}

TEST(CheckpointScheduleTest, Add_TwoSteps_EachIsTaken) {
  CheckpointSchedule schedule(0, 10);
  schedule.Add(Step(6));
  schedule.Add(Step(3));
  EXPECT_TRUE(schedule.Take(Step(3), kView, true));
  EXPECT_FALSE(schedule.Take(Step(4), kView, true));
  EXPECT_TRUE(schedule.Take(Step(6), kView, true));
  EXPECT_FALSE(schedule.Take(Step(7), kView, true));
  EXPECT_TRUE(schedule.Take(Step(10), kView, true));  // the end
}

TEST(CheckpointScheduleTest, Take_NotAtABorder_IsDueAtTheNext) {
  CheckpointSchedule schedule(4, 100);
  EXPECT_FALSE(schedule.Take(Step(4), kView, false));
  EXPECT_FALSE(schedule.Take(Step(5), kView, false));
  EXPECT_TRUE(schedule.Take(Step(6), kView, true));
  EXPECT_FALSE(schedule.Take(Step(7), kView, true));
  EXPECT_TRUE(schedule.Take(Step(8), kView, true));
}

// A worker is lost after the copy, and the step before is done again.
TEST(CheckpointScheduleTest, Take_AgainInALaterView_WhatWasAskedForIsDueAgain) {
  CheckpointSchedule schedule(0, 100);
  schedule.Add(Step(7));
  EXPECT_FALSE(schedule.Take(Step(6), kView, true));
  EXPECT_TRUE(schedule.Take(Step(7), kView, true));
  EXPECT_FALSE(schedule.Take(Step(7), kView, true));  // behind an evaluation
  EXPECT_FALSE(schedule.Take(Step(6), Generation(2), true));
  EXPECT_TRUE(schedule.Take(Step(7), Generation(2), true));
  EXPECT_TRUE(schedule.Take(Step(7), Generation(3), true));
  EXPECT_FALSE(schedule.Take(Step(8), Generation(4), true));
}

// As on a worker that had not come to the border.
TEST(CheckpointScheduleTest, Take_BorderAgainInALaterView_IsDueThere) {
  CheckpointSchedule schedule(4, 100);
  schedule.Add(Step(10));
  EXPECT_TRUE(schedule.Take(Step(8), kView, true));
  EXPECT_FALSE(schedule.Take(Step(10), kView, false));
  EXPECT_TRUE(schedule.Take(Step(11), kView, true));
  EXPECT_FALSE(schedule.Take(Step(11), Generation(2), false));
  EXPECT_TRUE(schedule.Take(Step(12), Generation(2), true));
}

TEST(CheckpointScheduleTest, Take_RunThatResumes_NothingFromBeforeIsDue) {
  CheckpointSchedule schedule(4, 100);
  EXPECT_FALSE(schedule.Take(Step(18), kView, true));
  EXPECT_FALSE(schedule.Take(Step(19), kView, true));
  EXPECT_TRUE(schedule.Take(Step(20), kView, true));
}

TEST(CheckpointScheduleTest, Take_ManyTimes_WhatIsAskedForIsStillTaken) {
  CheckpointSchedule schedule(0, 100);
  for (int step = 1; step <= 40; ++step) {
    schedule.Add(Step(step));
    EXPECT_TRUE(schedule.Take(Step(step), kView, true)) << step;
  }
  EXPECT_FALSE(schedule.Take(Step(41), kView, true));
  EXPECT_TRUE(schedule.Take(Step(40), Generation(2), true));
}

}  // namespace
}  // namespace gradwire
