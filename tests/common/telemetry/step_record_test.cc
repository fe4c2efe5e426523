#include "common/telemetry/step_record.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

// No two fields alike.
StepRecord SomeRecord() {
  StepRecord record;
  record.step = Step(7);
  record.epoch = 1;
  record.rank = Rank(2);
  record.loss = 2.5;
  record.samples = 64;
  record.padded = 3;
  record.correct = 21;
  record.iteration = absl::Seconds(10);
  for (const PhaseInfo& info : kPhases) {
    record.phases[info.phase] = absl::Milliseconds(250) * (1 + static_cast<int>(info.phase));
  }
  record.bytes_sent = 1000;
  record.bytes_received = 2000;
  record.time = absl::FromUnixMillis(1'700'000'000'250);
  record.staleness = {4, 5};
  record.compressed = {3.5, 0.25};
  return record;
}

TEST(OwnWork, WaitForOthers_IsNotInIt) {
  StepRecord record;
  record.iteration = absl::Seconds(3);
  record.phases[Phase::kExposedCommunication] = absl::Seconds(1);
  record.phases[Phase::kCommunication] = absl::Seconds(2);
  EXPECT_EQ(OwnWork(record), absl::Seconds(2));
}

TEST(StepDone, ToAndFrom_IsTheSameStep) {
  const StepRecord record = FromStepDone(ToStepDone(SomeRecord()));
  EXPECT_EQ(record.step, Step(7));
  EXPECT_EQ(record.epoch, 1);
  EXPECT_EQ(record.rank, Rank(2));
  EXPECT_EQ(record.loss, 2.5);
  EXPECT_EQ(record.samples, 64);
  EXPECT_EQ(record.padded, 3);
  EXPECT_EQ(record.correct, 21);
  EXPECT_EQ(record.iteration, absl::Seconds(10));
  EXPECT_EQ(record.bytes_sent, 1000u);
  EXPECT_EQ(record.bytes_received, 2000u);
  EXPECT_EQ(record.time, SomeRecord().time);
  ASSERT_TRUE(record.staleness.has_value());
  EXPECT_EQ(record.staleness->lag, 4u);
  EXPECT_EQ(record.staleness->spread, 5u);
}

TEST(StepDone, ToAndFrom_NothingServed_NoStaleness) {
  EXPECT_FALSE(FromStepDone(ToStepDone(StepRecord())).staleness.has_value());
}

TEST(StepDone, ToAndFrom_SkippedStep_IsOne) {
  StepRecord record;
  EXPECT_FALSE(FromStepDone(ToStepDone(record)).skipped);
  record.skipped = true;
  EXPECT_TRUE(FromStepDone(ToStepDone(record)).skipped);
}

TEST(StepDone, ToAndFrom_KeepsWhatCompressionDid) {
  StepRecord record = FromStepDone(ToStepDone(SomeRecord()));
  ASSERT_TRUE(record.compressed.has_value());
  EXPECT_EQ(record.compressed->ratio, 3.5);
  EXPECT_EQ(record.compressed->residual, 0.25);
  record.compressed->residual.reset();
  record = FromStepDone(ToStepDone(record));
  EXPECT_FALSE(record.compressed->residual.has_value());
  EXPECT_FALSE(FromStepDone(ToStepDone(StepRecord())).compressed.has_value());
}

TEST(StepDone, ToAndFrom_KeepsEachPhase) {
  const StepRecord record = FromStepDone(ToStepDone(SomeRecord()));
  for (const PhaseInfo& info : kPhases) {
    EXPECT_EQ(record.phases[info.phase], SomeRecord().phases[info.phase]) << info.name;
  }
}

TEST(FromStepDone, PhasesOfAnotherList_AreLeftOut) {
  v1::StepDone done;
  (*done.mutable_phase_seconds())["of another list"] = 3;
  const StepRecord record = FromStepDone(done);
  for (const PhaseInfo& info : kPhases) {
    EXPECT_EQ(record.phases[info.phase], absl::ZeroDuration());
  }
}

}  // namespace
}  // namespace gradwire
