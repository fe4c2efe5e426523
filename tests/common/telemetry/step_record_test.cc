#include "common/telemetry/step_record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

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
  record.peak_memory_bytes = 3000;
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
  EXPECT_EQ(record.peak_memory_bytes, 3000u);
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

// What a rank does not send, the coordinator can neither show nor count.
TEST(StepFigures, Row_OfTheCoordinator_IsAFieldOfStepDone) {
  for (const StepFigure& figure : kStepFigures) {
    const bool travels = v1::StepDone::descriptor()->FindFieldByName(figure.key) != nullptr;
    EXPECT_EQ(travels, figure.key != std::string("lr")) << figure.key;
    if (figure.on_page || figure.at_coordinator != StepFigure::AtCoordinator::kNone) {
      EXPECT_TRUE(travels) << figure.key;
    }
  }
}

TEST(StepFigures, Row_Each_HasNamesOfItsOwn) {
  std::set<std::string> keys, series, places;
  for (const StepFigure& figure : kStepFigures) {
    EXPECT_TRUE(keys.insert(figure.key).second) << figure.key;
    if (figure.series != StepFigure::Series::kNone) {
      EXPECT_TRUE(series.insert(figure.series_name).second) << figure.series_name;
      EXPECT_NE(figure.series_help, std::string()) << figure.key;
    }
    if (figure.in_summary != StepFigure::InSummary::kNot) {
      EXPECT_TRUE(places.insert(figure.summary_place).second) << figure.summary_place;
    }
  }
}

TEST(StepFigures, SetAndGet_EachRow_IsTheSameValue) {
  StepRecord given = SomeRecord();
  given.lr = 0.125;
  given.skipped = true;
  for (const StepFigure& figure : kStepFigures) {
    const auto value = figure.get(given);
    ASSERT_TRUE(value.has_value()) << figure.key;
    StepRecord record;
    figure.set(*value, &record);
    EXPECT_EQ(FigureJson(*figure.get(record)), FigureJson(*value)) << figure.key;
  }
}

TEST(StepFigures, Get_StepWithoutTheFigure_IsNone) {
  StepRecord record;
  record.loss_told = false;
  for (const StepFigure& figure : kStepFigures) {
    const bool always = !figure.optional && figure.key != std::string("skipped");
    EXPECT_EQ(figure.get(record).has_value(), always) << figure.key;
  }
}

TEST(RecordOfWorker, TwoRanks_CountsAddUpAndLossIsTheMean) {
  StepRecord second = SomeRecord();
  second.rank = Rank(5);
  second.loss = 3.5;
  second.samples = 32;
  second.padded = 1;
  second.correct = 10;
  second.bytes_sent = 500;
  second.bytes_received = 7;
  const StepRecord whole = RecordOfWorker({SomeRecord(), second});
  EXPECT_EQ(whole.rank, Rank(2));
  EXPECT_EQ(whole.loss, 3);
  EXPECT_EQ(whole.samples, 96);
  EXPECT_EQ(whole.padded, 4);
  EXPECT_EQ(whole.correct, 31);
  EXPECT_EQ(whole.bytes_sent, 1500u);
  EXPECT_EQ(whole.bytes_received, 2007u);
  EXPECT_EQ(whole.iteration, absl::Seconds(10));
  EXPECT_EQ(whole.staleness->lag, 4u);
}

TEST(ToStepDone, LossThatIsNotTold_IsAbsent) {
  StepRecord record = SomeRecord();
  record.loss_told = false;
  const v1::StepDone done = ToStepDone(record);
  EXPECT_FALSE(done.has_loss());
  EXPECT_FALSE(FromStepDone(done).loss_told);
  EXPECT_TRUE(std::isnan(FromStepDone(done).loss));
}

}  // namespace
}  // namespace gradwire
