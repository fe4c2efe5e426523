#include "coordinator/ledger/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/coordinator/ledger/ledger_records.h"

namespace gradwire {
namespace {

using ::gradwire::testing::End;
using ::gradwire::testing::Epoch;
using ::gradwire::testing::RunOf;
using ::gradwire::testing::Sealed;
using ::gradwire::testing::Start;
using ::gradwire::testing::View;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Records = std::vector<Record>;

LedgerReplay Replay(const std::vector<Records>& segments) {
  LedgerReplay replay;
  uint64_t number = 0;
  int name = 1;
  for (const Records& segment : segments) {
    for (const Record& record : segment) {
      EXPECT_TRUE(replay.Add({name, 0, number++, record}).ok());
    }
    ++name;
  }
  return replay;
}

Records Then(Records first, const Records& then) {
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

TEST(LedgerReplay, FinishedRun_IsSound) {
  const LedgerReplay replay = Replay({Then(RunOf(1, 0, 5), {End()})});
  EXPECT_THAT(replay.findings(), IsEmpty());
  EXPECT_EQ(replay.steps().size(), 5);
  EXPECT_EQ(replay.open_step(), 5);
  EXPECT_EQ(replay.epoch(), 1);
  ASSERT_EQ(replay.runs().size(), 1);
  EXPECT_EQ(replay.runs()[0].sealed, 5);
  EXPECT_TRUE(replay.runs()[0].end->finished());
}

TEST(LedgerReplay, Loss_ViewOfTheOpenStep_IsSoundAndListed) {
  v1::ViewRecord view = View(1, 2, 2);
  view.add_lost()->set_cause("killed");
  const LedgerReplay replay = Replay({Then(RunOf(1, 0, 2), {view, Sealed(2, 2)})});
  EXPECT_THAT(replay.findings(), IsEmpty());
  ASSERT_EQ(replay.runs()[0].Lost().size(), 1);
  EXPECT_EQ(replay.runs()[0].Lost()[0].cause(), "killed");
}

TEST(LedgerReplay, LossesOfTwoViewsAndOfTheEnd_AreListedInOrder) {
  v1::ViewRecord second = View(1, 2, 2), third = View(1, 3, 3);
  second.add_lost()->set_cause("killed");
  third.add_lost()->set_cause("silent");
  third.add_lost()->set_cause("it left");
  v1::EndRecord end = End();
  end.add_lost()->set_cause("its session stream broke");
  const LedgerReplay replay =
      Replay({Then(RunOf(1, 0, 2), {second, Sealed(2, 2), third, Sealed(3, 3), end})});
  EXPECT_THAT(replay.findings(), IsEmpty());
  std::vector<std::string> causes;
  for (const v1::LostWorker& lost : replay.runs()[0].Lost()) causes.push_back(lost.cause());
  EXPECT_THAT(causes, ElementsAre("killed", "silent", "it left", "its session stream broke"));
}

TEST(LedgerReplay, Resume_StepsAgain_LastRecordCounts) {
  v1::ResumedRecord resumed;
  resumed.set_step(2);
  Records second = {Start(), Epoch(2), View(2, 1, 2), resumed};
  for (uint64_t step = 2; step < 6; ++step) second.emplace_back(Sealed(step));
  const LedgerReplay replay = Replay({RunOf(1, 0, 4), second});
  EXPECT_THAT(replay.findings(), IsEmpty());
  EXPECT_EQ(replay.steps().size(), 6);
  EXPECT_EQ(replay.steps().at(1).times, 1);
  EXPECT_EQ(replay.steps().at(3).times, 2);
  EXPECT_EQ(replay.runs()[1].resumed->step(), 2);
}

TEST(LedgerReplay, DoubledStep_IsFound) {
  EXPECT_THAT(
      Replay({Then(RunOf(1, 0, 3), {Sealed(2)})}).findings(),
      ElementsAre(HasSubstr("record 6 (00000001.log, byte 0, Sealed): step 2 is sealed twice "
                            "in this run")));
}

TEST(LedgerReplay, MissingSteps_AreFound) {
  EXPECT_THAT(Replay({Then(RunOf(1, 0, 3), {Sealed(5)})}).findings(),
              ElementsAre(HasSubstr("no record of steps 3 to 4")));
  EXPECT_THAT(Replay({Then(RunOf(1, 0, 3), {Sealed(4)})}).findings(),
              ElementsAre(HasSubstr("no record of step 3")));
}

TEST(LedgerReplay, ViewSkipsOrRepeatsAStep_IsFound) {
  EXPECT_THAT(Replay({Then(RunOf(1, 0, 3), {View(1, 2, 4)})}).findings(),
              ElementsAre(HasSubstr("got first step 4, expected 3")));
  EXPECT_THAT(Replay({Then(RunOf(1, 0, 3), {View(1, 2, 2)})}).findings(),
              ElementsAre(HasSubstr("got first step 2, expected 3")));
  EXPECT_THAT(Replay({RunOf(1, 0, 3), RunOf(2, 4, 1)}).findings(),
              ElementsAre(HasSubstr("got first step 4, expected at most 3")));
}

TEST(LedgerReplay, AgainFromOtherSamples_IsFound) {
  v1::SealedRecord other = Sealed(2);
  other.mutable_samples(1)->set_digest(5);
  EXPECT_THAT(Replay({RunOf(1, 0, 3), Then(RunOf(2, 2, 0), {other})}).findings(),
              ElementsAre(HasSubstr("step 2 was computed again from other samples")));
}

TEST(LedgerReplay, AgainWithOtherDigest_IsFound) {
  v1::SealedRecord first = Sealed(0), second = Sealed(0);
  first.set_digest(16);
  second.set_digest(17);
  const auto twice = [&](const v1::SealedRecord& again) {
    return Replay({Then(RunOf(1, 0, 0), {first}), Then(RunOf(2, 0, 0), {again})}).findings();
  };
  EXPECT_THAT(twice(second), ElementsAre(HasSubstr("got digest 0000000000000011, expected "
                                                   "0000000000000010")));
  EXPECT_THAT(twice(first), IsEmpty());
  EXPECT_THAT(twice(Sealed(0)), IsEmpty());  // it compared no parameters
}

TEST(LedgerReplay, OtherSettings_BeginAnew) {
  Records other = RunOf(2, 0, 1);
  other[0] = Start("0.2");
  std::get<v1::SealedRecord>(other[3]).mutable_samples(0)->set_digest(5);
  const LedgerReplay replay = Replay({RunOf(1, 0, 3), other});
  EXPECT_THAT(replay.findings(), IsEmpty());
  EXPECT_EQ(replay.steps().size(), 1);
}

TEST(LedgerReplay, OneMoreSettingOrOneLess_BeginsAnew) {
  const Records run = RunOf(1, 0, 3);
  Records more = RunOf(2, 0, 1);
  v1::StartRecord start = Start();
  (*start.mutable_settings())["compress"] = "int8";
  more[0] = start;
  std::get<v1::SealedRecord>(more[3]).mutable_samples(0)->set_digest(5);
  EXPECT_THAT(Replay({run, more}).findings(), IsEmpty());
  Records begins = RunOf(1, 0, 3);
  begins[0] = start;
  Records less = more;
  less[0] = Start();
  EXPECT_THAT(Replay({begins, less}).findings(), IsEmpty());
}

TEST(LedgerReplay, OtherThreads_BeginAnew) {
  v1::StartRecord threads = Start();
  threads.set_threads(threads.threads() + 1);
  v1::SealedRecord first = Sealed(0), other = Sealed(0);
  first.set_digest(16);
  other.set_digest(17);
  Records again = Then(RunOf(2, 0, 0), {other});
  again[0] = threads;
  EXPECT_THAT(Replay({Then(RunOf(1, 0, 0), {first}), again}).findings(), IsEmpty());
}

TEST(LedgerReplay, ResumedWithAnotherLength_Continues) {
  Records longer = RunOf(2, 3, 4);
  longer[0] = Start("0.2");
  const LedgerReplay replay = Replay({RunOf(1, 0, 5), longer});
  EXPECT_THAT(replay.findings(), IsEmpty());
  EXPECT_EQ(replay.steps().size(), 7);
}

TEST(LedgerReplay, SamplesNotOfAllRanks_AreFound) {
  v1::SealedRecord sealed = Sealed(0);
  sealed.mutable_samples()->RemoveLast();
  EXPECT_THAT(
      Replay({Then(RunOf(1, 0, 0), {sealed})}).findings(),
      ElementsAre(HasSubstr("step 0: got samples of 1 ranks, expected those of ranks 0 to 1")));
  sealed = Sealed(0);
  sealed.mutable_samples(1)->set_rank(0);
  EXPECT_EQ(Replay({Then(RunOf(1, 0, 0), {sealed})}).findings().size(), 1);
  sealed = Sealed(0);
  sealed.add_samples()->set_rank(2);
  EXPECT_EQ(Replay({Then(RunOf(1, 0, 0), {sealed})}).findings().size(), 1);
  sealed.clear_samples();  // a program that reports none
  EXPECT_THAT(Replay({Then(RunOf(1, 0, 0), {sealed})}).findings(), IsEmpty());
}

TEST(LedgerReplay, NumbersThatDoNotGrow_AreFound) {
  EXPECT_THAT(Replay({RunOf(2, 0, 1), RunOf(2, 0, 1)}).findings(),
              ElementsAre(HasSubstr("got epoch 2, expected more than 2")));
  EXPECT_THAT(Replay({Then(RunOf(1, 0, 1), {View(1, 1, 1)})}).findings(),
              ElementsAre(HasSubstr("got generation 1, expected more than 1")));
  EXPECT_THAT(Replay({Then(RunOf(1, 0, 1), {View(2, 2, 1)})}).findings(),
              ElementsAre(HasSubstr("got epoch 2, expected 1")));
  EXPECT_THAT(Replay({Then(RunOf(1, 0, 1), {Sealed(1, 2)})}).findings(),
              ElementsAre(HasSubstr("step 1: got generation 2, expected 1")));
}

TEST(LedgerReplay, SegmentThatBeginsOtherwise_IsFound) {
  EXPECT_THAT(
      Replay({{Start(), View(0, 1, 0)}}).findings(),
      ElementsAre(HasSubstr("expected Epoch; each segment begins with Start, Epoch, View")));
  EXPECT_THAT(Replay({Then(RunOf(1, 0, 1), {Start()})}).findings(),
              ElementsAre(HasSubstr("expected it only at the beginning of a segment")));
  EXPECT_THAT(Replay({Then(RunOf(1, 0, 1), {End(), Sealed(1)})}).findings(),
              ElementsAre(HasSubstr("got a record after End")));
}

TEST(LedgerReplay, ViewOfAnotherRun_IsFound) {
  v1::ViewRecord view = View(1, 2, 1);
  view.mutable_view()->set_run_id("another run's id");
  EXPECT_THAT(Replay({Then(RunOf(1, 0, 1), {view})}).findings(),
              ElementsAre(HasSubstr("got a view of another run")));
}

TEST(LedgerReplay, UnrecordedSteps_AreFoundWithTheReason) {
  v1::ViewRecord view = View(1, 2, 7);
  view.mutable_unrecorded()->set_first(3);
  view.mutable_unrecorded()->set_count(4);
  view.mutable_unrecorded()->set_reason("no space left on device");
  const LedgerReplay replay = Replay({Then(RunOf(1, 0, 3), {view, Sealed(7, 2)})});
  EXPECT_THAT(replay.findings(),
              ElementsAre(HasSubstr("no record of steps 3 to 6: no space left on device")));
  EXPECT_EQ(replay.runs()[0].unrecorded, 4);
}

TEST(LedgerReplay, CheckpointOfAStepThatIsNotSealed_IsFound) {
  v1::CheckpointRecord checkpoint;
  checkpoint.set_step(3);
  EXPECT_THAT(Replay({Then(RunOf(1, 0, 3), {checkpoint})}).findings(), IsEmpty());
  checkpoint.set_step(4);
  EXPECT_THAT(Replay({Then(RunOf(1, 0, 3), {checkpoint})}).findings(),
              ElementsAre(HasSubstr("got step 4, expected at most 3")));
}

TEST(LedgerReplay, ResumedElsewhere_IsFound) {
  v1::ResumedRecord resumed;
  resumed.set_step(1);
  EXPECT_THAT(Replay({RunOf(1, 0, 3), Then(RunOf(2, 2, 0), {resumed})}).findings(),
              ElementsAre(HasSubstr("got step 1, expected 2, the first step of the first view")));
}

TEST(LedgerReplay, NewerFormat_IsRefused) {
  v1::StartRecord start = Start();
  start.set_format(kLedgerFormat + 1);
  LedgerReplay replay;
  const absl::Status status = replay.Add({1, 0, 0, start});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("got format 2, expected at most 1"));
}

TEST(LedgerReplay, UnrecordedStepsOfACheckpointAndOfTheEnd_AreFoundToo) {
  v1::CheckpointRecord checkpoint;
  checkpoint.set_step(5);
  checkpoint.mutable_unrecorded()->set_first(3);
  checkpoint.mutable_unrecorded()->set_count(2);
  checkpoint.mutable_unrecorded()->set_reason("disk full");
  v1::EndRecord end = End();
  end.mutable_unrecorded()->set_first(5);
  end.mutable_unrecorded()->set_count(1);
  end.mutable_unrecorded()->set_reason("disk full");
  const LedgerReplay replay = Replay({Then(RunOf(1, 0, 3), {checkpoint, end})});
  EXPECT_THAT(replay.findings(), ElementsAre(HasSubstr("no record of steps 3 to 4: disk full"),
                                             HasSubstr("no record of step 5: disk full")));
  EXPECT_EQ(replay.runs()[0].unrecorded, 3);
  EXPECT_EQ(replay.open_step(), 6);
}

TEST(LedgerReplay, UnrecordedStepsThatBeginElsewhere_AreFound) {
  v1::EndRecord end = End();
  end.mutable_unrecorded()->set_first(4);
  end.mutable_unrecorded()->set_count(1);
  EXPECT_THAT(Replay({Then(RunOf(1, 0, 3), {end})}).findings(),
              ElementsAre(HasSubstr("no record of step 4"),
                          HasSubstr("got step 4 as first that was not recorded, expected 3")));
}

TEST(LedgerReplay, RunBeforeRecordedNoStep_NextOneMayBeginAnywhere) {
  v1::ViewRecord silent = View(1, 1, 0);
  silent.mutable_view()->set_seals(false);
  const Records first = {Start(), Epoch(1), silent, End()};
  const LedgerReplay replay = Replay({first, RunOf(2, 5, 2)});
  EXPECT_THAT(replay.findings(), IsEmpty());
  EXPECT_EQ(replay.open_step(), 7);
  EXPECT_THAT(Replay({first, RunOf(2, 5, 2), RunOf(3, 8, 1)}).findings(),
              ElementsAre(HasSubstr("got first step 8, expected at most 7")));
}

TEST(LedgerReplay, CheckpointsOfARunThatRecordsNoStep_AreSound) {
  v1::ViewRecord silent = View(1, 1, 0);
  silent.mutable_view()->set_seals(false);
  v1::CheckpointRecord checkpoint;
  checkpoint.set_step(4);
  EXPECT_THAT(Replay({{Start(), Epoch(1), silent, checkpoint, End()}}).findings(), IsEmpty());
}

TEST(LedgerReplay, OtherWorldSize_BeginsAnew) {
  v1::StartRecord larger = Start();
  larger.set_world_size(larger.world_size() + 1);
  v1::SealedRecord first = Sealed(0), other = Sealed(0);
  first.clear_samples();
  first.set_digest(16);
  other.clear_samples();
  other.set_digest(17);
  Records again = Then(RunOf(2, 0, 0), {other});
  again[0] = larger;
  EXPECT_THAT(Replay({Then(RunOf(1, 0, 0), {first}), again}).findings(), IsEmpty());
}

TEST(LedgerReplay, StepComputedAgain_ItsLastRecordCounts) {
  v1::SealedRecord again = Sealed(2);
  again.set_digest(16);
  const LedgerReplay replay = Replay({RunOf(1, 0, 3), Then(RunOf(2, 2, 0), {again})});
  EXPECT_THAT(replay.findings(), IsEmpty());
  EXPECT_EQ(replay.steps().at(2).record.digest(), 16u);
}

TEST(LedgerReplay, EarlierStepSealedAgain_LaterOnesAreNotMissing) {
  const Records twice = Then(RunOf(1, 0, 3), {Sealed(1), Sealed(3)});
  EXPECT_THAT(Replay({twice}).findings(),
              ElementsAre(HasSubstr("step 1 is sealed twice in this run")));
}

TEST(LedgerReplay, AgainFromSamplesThatDifferInOneField_IsFound) {
  const std::vector<std::function<void(v1::RankSamples*)>> changes = {
      [](v1::RankSamples* samples) { samples->set_epoch(1); },
      [](v1::RankSamples* samples) { samples->set_count(5); },
      [](v1::RankSamples* samples) { samples->set_padded(1); },
      [](v1::RankSamples* samples) { samples->set_digest(5); }};
  for (size_t i = 0; i < changes.size(); ++i) {
    v1::SealedRecord other = Sealed(2);
    changes[i](other.mutable_samples(1));
    EXPECT_THAT(Replay({RunOf(1, 0, 3), Then(RunOf(2, 2, 0), {other})}).findings(),
                ElementsAre(HasSubstr("step 2 was computed again from other samples")))
        << i;
  }
}

}  // namespace
}  // namespace gradwire
