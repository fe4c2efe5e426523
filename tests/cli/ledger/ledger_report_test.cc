#include "cli/ledger/ledger_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tests/coordinator/ledger/ledger_records.h"
#include "tests/support/temp_dir.h"
#include "worker/data/sampler.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kSamples = 21;
constexpr int kBatch = 4;
constexpr uint64_t kStepsOfEpoch = 3;  // of 11 samples a rank

v1::StartRecord StartOf() {
  v1::StartRecord start = testing::Start();
  auto& settings = *start.mutable_settings();
  settings["training samples"] = std::to_string(kSamples);
  settings["sampler-seed"] = "3";
  settings["batch-size"] = std::to_string(kBatch);
  return start;
}

v1::SealedRecord StepOf(uint64_t step,
                        const SamplerOptions& options = {testing::kLedgerRanks, true, 3}) {
  const Sampler sampler = *Sampler::Create(kSamples, options);
  const SampleRange range = RangeOf(sampler, kBatch, Step(step));
  v1::SealedRecord record;
  record.set_step(step);
  record.set_generation(1);
  for (uint32_t rank = 0; rank < testing::kLedgerRanks; ++rank) {
    const std::vector<int64_t> all = *sampler.Indices(range.epoch, Rank(static_cast<int>(rank)));
    v1::RankSamples& samples = *record.add_samples();
    samples.set_rank(rank);
    samples.set_epoch(static_cast<uint64_t>(range.epoch));
    samples.set_count(static_cast<uint64_t>(range.count));
    samples.set_padded(static_cast<uint64_t>(
        sampler.PaddedAmong(Rank(static_cast<int>(rank)), range.first, range.count)));
    samples.set_digest(DigestOfIndices(absl::MakeConstSpan(all).subspan(
        static_cast<size_t>(range.first), static_cast<size_t>(range.count))));
  }
  return record;
}

// A finished run of two epochs and a step.
std::vector<Record> Records() {
  std::vector<Record> records = {StartOf(), testing::Epoch(1), testing::View(1, 1, 0)};
  for (uint64_t step = 0; step < 2 * kStepsOfEpoch + 1; ++step) records.emplace_back(StepOf(step));
  records.emplace_back(testing::End());
  return records;
}

LedgerReport ReportOf(const std::vector<Record>& records) {
  LedgerReport report;
  for (const Record& record : records) {
    EXPECT_TRUE(report.replay.Add({1, 0, report.end.position.number++, record, 0}).ok());
  }
  report.end.segment = 1;
  return report;
}

v1::SealedRecord& StepAt(std::vector<Record>* records, size_t step) {
  return std::get<v1::SealedRecord>((*records)[3 + step]);
}

TEST(LedgerReport, SoundRun_EachEpochReadsEachSampleOnce) {
  const LedgerReport report = ReportOf(Records());
  const LedgerVerdict verdict = Judge(report);
  EXPECT_THAT(verdict.findings, IsEmpty());
  EXPECT_THAT(verdict.notes, IsEmpty());
  EXPECT_EQ(verdict.samples.steps, 7);
  ASSERT_THAT(verdict.samples.epochs, SizeIs(2));
  EXPECT_EQ(verdict.samples.epochs[1].epoch, 1);
  EXPECT_EQ(verdict.samples.epochs[1].read, kSamples);
  EXPECT_EQ(verdict.samples.epochs[1].repeats, 1);
  const std::string text = VerdictText(report, verdict);
  EXPECT_THAT(text, HasSubstr("epoch 0 of the data: 21 samples read, 1 repeat, as declared\n"));
  EXPECT_THAT(text, HasSubstr("samples of 7 steps are those of the sampler\n"));
  EXPECT_THAT(text, HasSubstr("the ledger is sound\n"));
  EXPECT_THAT(text,
              HasSubstr("epoch 2 of the data: incomplete, 1 of 3 steps sealed; 8 samples read\n"));
  const auto json = VerdictJson(report, verdict);
  EXPECT_TRUE(json["sound"].get<bool>());
  EXPECT_THAT(json["epochs"], SizeIs(2));
  ASSERT_THAT(json["incomplete_epochs"], SizeIs(1));
  EXPECT_EQ(json["incomplete_epochs"][0]["epoch"], 2);
  EXPECT_EQ(json["incomplete_epochs"][0]["sealed"], 1);
  EXPECT_EQ(json["incomplete_epochs"][0]["of_steps"], 3);
}

// The ranks of a step read each other's samples.
TEST(LedgerReport, ChangedSampleList_IsFound) {
  std::vector<Record> records = Records();
  v1::SealedRecord& step = StepAt(&records, 2);
  const uint64_t first = step.samples(0).digest();
  step.mutable_samples(0)->set_digest(step.samples(1).digest());
  step.mutable_samples(1)->set_digest(first);
  const LedgerReport report = ReportOf(records);
  const LedgerVerdict verdict = Judge(report);
  ASSERT_GE(verdict.findings.size(), 2);
  EXPECT_THAT(verdict.findings[0], HasSubstr("step 2, rank 0: got 3 samples of epoch 0"));
  EXPECT_THAT(verdict.findings[1], HasSubstr("step 2, rank 1: got 3 samples of epoch 0"));
  EXPECT_EQ(verdict.samples.steps, 6);
  EXPECT_THAT(
      verdict.findings,
      ::testing::Contains(HasSubstr("epoch 0 of the data: got 16 different samples, expected 21")));
  EXPECT_THAT(VerdictText(report, verdict), HasSubstr("the ledger is not sound: "));
  EXPECT_FALSE(VerdictJson(report, verdict)["sound"].get<bool>());
}

TEST(LedgerReport, SamplesOfTheFirstRankAlone_AreFound_AndTheStepDoesNotCount) {
  std::vector<Record> records = Records();
  StepAt(&records, 2).mutable_samples(0)->set_digest(1);
  const LedgerReport report = ReportOf(records);
  const LedgerVerdict verdict = Judge(report);
  EXPECT_EQ(verdict.samples.steps, 6);
  EXPECT_EQ(VerdictJson(report, verdict)["steps_with_samples"], 6);
  EXPECT_EQ(VerdictJson(report, verdict)["sealed"], 7);
}

TEST(LedgerReport, OtherEpochCountOrPadding_IsFound) {
  for (const int field : {0, 1, 2}) {
    std::vector<Record> records = Records();
    v1::RankSamples& samples = *StepAt(&records, 4).mutable_samples(1);
    if (field == 0) samples.set_epoch(0);
    if (field == 1) samples.set_count(3);
    if (field == 2) samples.set_padded(1);
    EXPECT_THAT(Judge(ReportOf(records)).findings, ::testing::Not(IsEmpty())) << field;
  }
}

// The digest of the changed list is right, for another seed.
TEST(LedgerReport, OtherSettingThanTheWorkers_IsFound) {
  std::vector<Record> records = Records();
  (*std::get<v1::StartRecord>(records[0]).mutable_settings())["sampler-seed"] = "4";
  EXPECT_THAT(Judge(ReportOf(records)).findings, ::testing::Not(IsEmpty()));
}

// Two epochs with samples of a sampler with these options, under settings that say so.
LedgerVerdict VerdictWith(const SamplerOptions& options,
                          const std::map<std::string, std::string>& settings) {
  v1::StartRecord start = StartOf();
  for (const auto& [name, value] : settings) (*start.mutable_settings())[name] = value;
  std::vector<Record> records = {start, testing::Epoch(1), testing::View(1, 1, 0)};
  for (uint64_t step = 0; step < 2 * kStepsOfEpoch; ++step) {
    records.emplace_back(StepOf(step, options));
  }
  return Judge(ReportOf(records));
}

TEST(LedgerReport, SettingsOfTheSampler_AreThoseOfTheRun) {
  SamplerOptions options = {testing::kLedgerRanks, true, 3};
  EXPECT_THAT(VerdictWith(options, {{"batch-size", "2"}, {"accumulate", "2"}}).findings, IsEmpty());
  options.drop_last = true;
  const LedgerVerdict dropped = VerdictWith(options, {{"drop-last", "true"}});
  EXPECT_THAT(dropped.findings, IsEmpty());
  ASSERT_THAT(dropped.samples.epochs, SizeIs(2));
  EXPECT_EQ(dropped.samples.epochs[0].read, kSamples - 1);
  EXPECT_EQ(dropped.samples.epochs[0].repeats, 0);
  options.drop_last = false;
  options.set_epoch = false;
  EXPECT_THAT(VerdictWith(options, {{"set-epoch", "false"}}).findings, IsEmpty());
  EXPECT_THAT(VerdictWith(options, {}).findings, ::testing::Not(IsEmpty()));
}

TEST(LedgerReport, StepWithoutSamples_IsFoundIfOthersHaveThem) {
  std::vector<Record> records = Records();
  StepAt(&records, 1).clear_samples();
  EXPECT_THAT(Judge(ReportOf(records)).findings,
              ::testing::Contains(HasSubstr("step 1: got no samples")));
  for (size_t step = 0; step < 7; ++step) StepAt(&records, step).clear_samples();
  EXPECT_THAT(Judge(ReportOf(records)).findings, IsEmpty());
  const LedgerReport report = ReportOf(records);
  EXPECT_THAT(Judge(report).notes, ElementsAre(HasSubstr("the program reports no samples")));
  EXPECT_THAT(VerdictText(report, Judge(report)),
              HasSubstr("the ledger is sound, but says nothing about samples\n"));
}

TEST(LedgerReport, SettingsOfAnotherProgram_AreANote) {
  std::vector<Record> records = Records();
  std::get<v1::StartRecord>(records[0]).mutable_settings()->erase("batch-size");
  EXPECT_THAT(Judge(ReportOf(records)).findings, IsEmpty());
  EXPECT_THAT(Judge(ReportOf(records)).notes,
              ElementsAre(HasSubstr("the program states no number as 'batch-size'")));
}

TEST(LedgerReport, RunThatSealsNothing_SaysWhy) {
  v1::StartRecord start = StartOf();
  start.set_cannot_recover("gloo has no second view");
  v1::ViewRecord view = testing::View(1, 1, 0);
  view.mutable_view()->set_seals(false);
  const LedgerReport report = ReportOf({start, testing::Epoch(1), view, testing::End()});
  EXPECT_THAT(Judge(report).findings, IsEmpty());
  EXPECT_THAT(Judge(report).notes,
              ElementsAre(HasSubstr("records no step: gloo has no second view")));
  EXPECT_THAT(
      VerdictText(report, Judge(report)),
      HasSubstr("the ledger is sound, but no step is sealed: it says nothing about steps and "
                "samples\n"));
  EXPECT_THAT(LedgerText(report), HasSubstr("no step is recorded: gloo has no second view\n"));
  EXPECT_FALSE(LedgerJson(report)["runs"][0]["records_steps"].get<bool>());
}

TEST(LedgerReport, TornTail_IsANoteIfShortAndElseAFinding) {
  LedgerReport report = ReportOf(Records());
  report.end.torn = TornTail{100, 12, "got 12 bytes of a header of 24 bytes", true};
  EXPECT_THAT(Judge(report).findings, IsEmpty());
  EXPECT_THAT(Judge(report).notes, ElementsAre(HasSubstr("the last 12 bytes, from byte 100 on")));
  report.end.torn->is_short = false;
  EXPECT_THAT(Judge(report).findings, ElementsAre(HasSubstr("its bytes have changed")));
}

TEST(LedgerReport, CheckpointOfARecordThatIsNotThere_IsFound) {
  LedgerReport report = ReportOf(Records());
  report.missing = {{40, {90, 5}}};
  EXPECT_THAT(Judge(report).findings,
              ElementsAre(HasSubstr("the checkpoint before step 40 names record 90")));
}

TEST(LedgerReport, StepsOfASecondRun_AreCountedAsComputedAgain) {
  std::vector<Record> records = Records();
  records.pop_back();
  for (const Record& record :
       std::vector<Record>{StartOf(), testing::Epoch(2), testing::View(2, 1, 5), StepOf(5),
                           StepOf(6), testing::End()}) {
    records.push_back(record);
  }
  const LedgerReport report = ReportOf(records);
  EXPECT_THAT(LedgerText(report),
              HasSubstr("7 sealed steps, from 0 to 6; 2 of them computed again"));
  EXPECT_EQ(LedgerJson(report)["steps"]["again"], 2);
}

// Adds a run in its own segment.
void AddRun(int segment, const std::vector<Record>& records, LedgerReport* report) {
  for (const Record& record : records) {
    ASSERT_TRUE(report->replay.Add({segment, 0, report->end.position.number++, record, 0}).ok());
  }
  report->end.segment = segment;
}

TEST(LedgerReport, StepsOfAThirdRun_AreCountedOnceAsComputedAgain) {
  std::vector<Record> first = Records();
  first.pop_back();
  LedgerReport report;
  AddRun(1, first, &report);
  AddRun(2, {StartOf(), testing::Epoch(2), testing::View(2, 1, 4), StepOf(4), StepOf(5)}, &report);
  AddRun(3, {StartOf(), testing::Epoch(3), testing::View(3, 1, 5), StepOf(5), StepOf(6)}, &report);
  const LedgerVerdict verdict = Judge(report);
  EXPECT_THAT(verdict.findings, IsEmpty());
  const auto json = VerdictJson(report, verdict);
  EXPECT_EQ(json["again"], 3);
  EXPECT_EQ(json["sealed"], 7);
  EXPECT_EQ(json["steps_with_samples"], 7);
  EXPECT_EQ(json["records"], 20);
  EXPECT_EQ(json["segments"], 3);
  EXPECT_EQ(json["epochs"][0]["samples"], kSamples);
  EXPECT_EQ(json["epochs"][0]["repeats"], 1);
  const std::string text = VerdictText(report, verdict);
  EXPECT_THAT(text, HasSubstr("20 records in 3 segments, one chain\n"));
  EXPECT_THAT(text, HasSubstr("7 sealed steps, from 0 to 6; 3 of them computed again"));
}

TEST(LedgerReport, RunOfOtherTraining_IsComparedWithItsOwnSettings) {
  v1::StartRecord other = StartOf();
  (*other.mutable_settings())["sampler-seed"] = "4";
  const SamplerOptions options = {testing::kLedgerRanks, true, 4};
  LedgerReport report;
  AddRun(1, {StartOf(), testing::Epoch(1), testing::View(1, 1, 0), StepOf(0)}, &report);
  AddRun(2,
         {other, testing::Epoch(2), testing::View(2, 1, 0), StepOf(0, options), StepOf(1, options)},
         &report);
  const LedgerVerdict verdict = Judge(report);
  EXPECT_THAT(verdict.findings, IsEmpty());
  EXPECT_EQ(verdict.samples.steps, 2);
}

// The first run records no step, the second one goes on in the middle of an epoch.
TEST(LedgerReport, EpochWhoseFirstStepsAreNotRecorded_IsIncomplete) {
  v1::StartRecord start = StartOf();
  start.set_cannot_recover("gloo has no second view");
  v1::ViewRecord view = testing::View(1, 1, 0);
  view.mutable_view()->set_seals(false);
  std::vector<Record> second = {StartOf(), testing::Epoch(2), testing::View(2, 1, 4)};
  for (uint64_t step = 4; step < 3 * kStepsOfEpoch; ++step) second.emplace_back(StepOf(step));
  LedgerReport report;
  AddRun(1, {start, testing::Epoch(1), view}, &report);
  AddRun(2, second, &report);
  const LedgerVerdict verdict = Judge(report);
  EXPECT_THAT(verdict.findings, IsEmpty());
  EXPECT_THAT(verdict.notes, ElementsAre("the run of coordinator 1 records no step: gloo has no "
                                         "second view"));
  ASSERT_THAT(verdict.samples.incomplete, SizeIs(1));
  EXPECT_EQ(verdict.samples.incomplete[0].epoch, 1);
  EXPECT_EQ(verdict.samples.incomplete[0].sealed, 2);
  ASSERT_THAT(verdict.samples.epochs, SizeIs(1));
  EXPECT_EQ(verdict.samples.epochs[0].epoch, 2);
  EXPECT_EQ(verdict.samples.epochs[0].read, kSamples);
  EXPECT_THAT(LedgerText(report), HasSubstr("5 sealed steps, from 4 to 8; none of them"));
}

// Text of a run whose checkpoint comes between its views, of which the second has another step.
std::string TextWithTimes() {
  v1::StartRecord start = StartOf();
  start.set_time(10);
  v1::ResumedRecord resumed;
  resumed.set_step(3);
  resumed.set_folder("step-000000000003");
  resumed.set_time(12);
  v1::ViewRecord first = testing::View(1, 1, 3);
  first.set_time(11);
  v1::CheckpointRecord checkpoint;
  checkpoint.set_step(4);
  checkpoint.set_folder("step-000000000004");
  checkpoint.set_time(15);
  v1::ViewRecord second = testing::View(1, 2, 5);
  second.set_time(20);
  v1::LostWorker& lost = *second.add_lost();
  lost.add_ranks(0);
  lost.add_ranks(1);
  lost.set_step(5);
  lost.set_cause("killed");
  v1::EndRecord end = testing::End();
  end.set_time(70);
  LedgerReport report;
  AddRun(1,
         {start, testing::Epoch(1), first, resumed, StepOf(3), StepOf(4), checkpoint, second, end},
         &report);
  return LedgerText(report);
}

TEST(LedgerReport, Text_HasEventsInTheOrderOfTheirTimes) {
  const std::string text = TextWithTimes();
  std::vector<std::string> events;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, "          1  ")) continue;
    events.emplace_back(absl::StripTrailingAsciiWhitespace(line.substr(24, 29)));
  }
  EXPECT_THAT(events, ElementsAre("00:00:10        3  start", "00:00:11        3  view",
                                  "00:00:12        3  resumed", "00:00:15        4  checkpoint",
                                  "00:00:20        5  lost", "00:00:20        5  view",
                                  "00:01:10        5  end"));
}

TEST(LedgerReport, Text_LostWorkerHasAllItsRanks) {
  EXPECT_THAT(TextWithTimes(), HasSubstr("5  lost        ranks 0, 1 (): killed\n"));
}

TEST(LedgerReport, PlacesOfCheckpoints_AreLookedForByNumberAndChain) {
  const testing::TempDir dir;
  const std::string folder = LedgerFolder(dir.path());
  ASSERT_TRUE(std::filesystem::create_directories(folder));
  LedgerPosition end;
  const std::string first = testing::SegmentOf(testing::RunOf(1, 0, 2), &end);
  const LedgerPosition between = end;
  testing::WriteFile(folder + "/" + SegmentName(1), first);
  testing::WriteFile(folder + "/" + SegmentName(2),
                     testing::SegmentOf(testing::RunOf(2, 2, 2), &end));
  const LedgerPosition other{between.number, between.chain + 1};
  const LedgerPosition behind{end.number + 1, end.chain};
  const auto report = ReadReport(dir.path(), {{2, between}, {3, other}, {4, end}, {9, behind}});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_THAT(report->missing, SizeIs(2));
  EXPECT_EQ(report->missing[0].step, 3);
  EXPECT_EQ(report->missing[1].step, 9);
  EXPECT_EQ(report->end.segment, 2);
}

TEST(LedgerReport, RunThatContinuesACheckpoint_EndsBehindItsOwnSteps) {
  std::vector<Record> records = Records();
  records.pop_back();
  v1::ResumedRecord resumed;
  resumed.set_step(5);
  resumed.set_folder("step-000000000005");
  v1::EndRecord end = testing::End();
  end.set_reason("all ranks finished");
  end.mutable_unrecorded()->set_first(7);
  end.mutable_unrecorded()->set_count(2);
  LedgerReport report = ReportOf(records);
  for (const Record& record :
       std::vector<Record>{StartOf(), testing::Epoch(2), testing::View(2, 1, 5), resumed, StepOf(5),
                           StepOf(6), end}) {
    ASSERT_TRUE(report.replay.Add({2, 0, report.end.position.number++, record, 0}).ok());
  }
  const std::string text = LedgerText(report);
  EXPECT_THAT(text, HasSubstr("5  resumed     from step-000000000005\n"));
  EXPECT_THAT(text, HasSubstr("9  end         all ranks finished\n"));
  const auto runs = LedgerJson(report)["runs"];
  ASSERT_THAT(runs, SizeIs(2));
  EXPECT_TRUE(runs[0]["resumed"].is_null());
  EXPECT_EQ(runs[0]["sealed"], 7);
  EXPECT_EQ(runs[1]["segment"], 2);
  EXPECT_EQ(runs[1]["epoch"], 2);
  EXPECT_EQ(runs[1]["resumed"]["step"], 5);
  EXPECT_EQ(runs[1]["resumed"]["folder"], "step-000000000005");
  EXPECT_EQ(runs[1]["sealed"], 2);
  EXPECT_EQ(runs[1]["unrecorded"], 2);
  EXPECT_EQ(runs[1]["views"][0]["first_step"], 5);
  EXPECT_TRUE(runs[1]["end"]["finished"].get<bool>());
  EXPECT_EQ(runs[1]["end"]["reason"], "all ranks finished");
}

// A run from step 5 on with one sealed step, and no end.
TEST(LedgerReport, RunThatBeganLater_HasNoEndAtTheStepBehindItsOwn) {
  const LedgerReport report = ReportOf({StartOf(), testing::Epoch(1), testing::View(1, 1, 5)});
  EXPECT_THAT(LedgerText(report), HasSubstr("      5  no end "));
}

TEST(LedgerReport, Json_HasWhatTheRecordsSay) {
  v1::StartRecord start = StartOf();
  start.set_threads(6);
  start.set_address("host:29400");
  start.set_time(10);
  v1::ViewRecord view = testing::View(1, 3, 0);
  view.set_time(11);
  v1::CheckpointRecord checkpoint;
  checkpoint.set_step(1);
  checkpoint.set_time(12);
  v1::EndRecord end = testing::End();
  end.set_time(13);
  end.add_lost()->set_cause("killed");
  end.mutable_unrecorded()->set_first(1);
  end.mutable_unrecorded()->set_count(2);
  v1::SealedRecord step = StepOf(0);
  step.set_generation(3);
  const auto json = LedgerJson(ReportOf({start, testing::Epoch(1), view, step, checkpoint, end}));
  const auto& run = json["runs"][0];
  EXPECT_EQ(run["version"], "0.0.0");
  EXPECT_EQ(run["coordinator"], "host:29400");
  EXPECT_EQ(run["world_size"], testing::kLedgerRanks);
  EXPECT_EQ(run["threads"], 6);
  EXPECT_EQ(run["time"], 10);
  EXPECT_EQ(run["settings"]["sampler-seed"], "3");
  EXPECT_EQ(run["sealed"], 1);
  EXPECT_EQ(run["unrecorded"], 2);
  EXPECT_EQ(run["views"][0]["generation"], 3);
  EXPECT_EQ(run["views"][0]["time"], 11);
  EXPECT_EQ(run["checkpoints"][0]["time"], 12);
  EXPECT_EQ(run["end"]["time"], 13);
  ASSERT_THAT(run["end"]["lost"], SizeIs(1));
  EXPECT_EQ(run["end"]["lost"][0]["cause"], "killed");
  EXPECT_EQ(json["steps"]["sealed"], 1);
  EXPECT_EQ(json["steps"]["open"], 3);
}

TEST(LedgerReport, Text_HasALineForEachEvent) {
  v1::ViewRecord view = testing::View(1, 2, 7);
  v1::LostWorker& lost = *view.add_lost();
  lost.add_ranks(1);
  lost.set_step(7);
  lost.set_cause("killed");
  lost.set_address("host:1");
  v1::CheckpointRecord checkpoint;
  checkpoint.set_step(6);
  checkpoint.set_folder("step-000000000006");
  std::vector<Record> records = Records();
  records.pop_back();
  records.emplace_back(checkpoint);
  records.emplace_back(view);
  const LedgerReport report = ReportOf(records);
  const std::string text = LedgerText(report);
  EXPECT_THAT(text, ::testing::StartsWith("coordinator  time (UTC) "));
  EXPECT_THAT(text, HasSubstr("6  checkpoint  step-000000000006\n"));
  EXPECT_THAT(text, HasSubstr("7  lost        rank 1 (host:1): killed\n"));
  EXPECT_THAT(text, HasSubstr("7  view        generation 2: 0 workers\n"));
  EXPECT_THAT(text, HasSubstr("7  no end      the coordinator runs, or was killed\n"));
  EXPECT_THAT(text, HasSubstr("7 sealed steps, from 0 to 6; none of them computed again"));
  const auto json = LedgerJson(report)["runs"][0];
  EXPECT_EQ(json["views"][1]["lost"][0]["cause"], "killed");
  EXPECT_EQ(json["checkpoints"][0]["step"], 6);
  EXPECT_TRUE(json["end"].is_null());
}

TEST(LedgerReport, Text_HasTheLossThatEndedTheRun) {
  std::vector<Record> records = Records();
  v1::LostWorker& lost = *std::get<v1::EndRecord>(records.back()).add_lost();
  lost.add_ranks(0);
  lost.set_step(7);
  lost.set_cause("its session stream broke");
  lost.set_address("host:2");
  EXPECT_THAT(LedgerText(ReportOf(records)),
              HasSubstr("7  lost        rank 0 (host:2): its session stream broke\n"));
}

}  // namespace
}  // namespace gradwire
