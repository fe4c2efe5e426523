#include "worker/run/step_reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using testing::TempDir;

// A worker that carries ranks 1 and 3, after one step.
class StepReporterTest : public ::testing::Test {
 protected:
  StepReporterTest() {
    WorkerOptions options;
    options.log_jsonl = dir_.path() + "/rank{rank}.jsonl";
    StepReporter::Run run{{Rank(1), Rank(3)}, 4, 10, 5};
    run.in_memory = {{Rank(1), Rank(3), Rank(0)}};
    reporter_ = StepReporter::Create(options, run, &metrics_).value();
    std::vector<StepRecord> reports(2);
    reports[0].rank = Rank(1);
    reports[1].rank = Rank(3);
    reports[0].loss = 2;
    reports[1].loss = 4;
    for (StepRecord& report : reports) report.samples = 8;
    done_ = reporter_->OnStep(reports, {101, 200, 0});
  }
  nlohmann::json LogOf(int rank) { return LinesOf(rank).at(0); }
  std::vector<nlohmann::json> LinesOf(int rank) {
    std::ifstream file(dir_.path() + "/rank" + std::to_string(rank) + ".jsonl");
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  TempDir dir_;
  WorkerMetrics metrics_{"ddp", "ring"};
  std::unique_ptr<StepReporter> reporter_;
  std::vector<v1::StepDone> done_;
};

TEST_F(StepReporterTest, OnStep_TwoRanks_AStepDoneForEach) {
  ASSERT_EQ(done_.size(), 2u);
  EXPECT_EQ(done_[0].rank(), 1u);
  EXPECT_EQ(done_[1].rank(), 3u);
  EXPECT_EQ(done_[1].loss(), 4);
  EXPECT_EQ(done_[1].total_steps(), 10u);
}

TEST_F(StepReporterTest, OnStep_StepsWithOverflow_AreCountedSinceTheLastOne) {
  TransferTotals totals;
  totals.overflow_steps = 2;
  reporter_->OnStep(std::vector<StepRecord>(2), totals);
  totals.overflow_steps = 5;
  reporter_->OnStep(std::vector<StepRecord>(2), totals);
  const std::string text = prometheus::TextSerializer().Serialize(metrics_.registry()->Collect());
  EXPECT_THAT(text, ::testing::HasSubstr("gradwire_wire_overflows_total 5\n"));
}

TEST_F(StepReporterTest, OnStep_BytesOfTheProcess_DividedAmongItsRanks) {
  EXPECT_EQ(done_[0].bytes_sent(), 50u);
  EXPECT_EQ(done_[1].bytes_sent(), 51u);
  EXPECT_EQ(done_[0].bytes_received(), 100u);
  EXPECT_EQ(reporter_->SummaryOf(0).bytes_sent, 50u);
  EXPECT_EQ(reporter_->SummaryOf(1).bytes_sent, 51u);
}

TEST_F(StepReporterTest, Summaries_AnotherRankIsAdopted_OneForEachInTheirOrder) {
  Recovery recovery;
  recovery.ranks = {Rank(0), Rank(1), Rank(3)};
  reporter_->GoOn(recovery);
  std::vector<std::pair<int, int64_t>> told;
  for (const Summary& summary : reporter_->Summaries()) {
    told.emplace_back(summary.rank, summary.iterations);
  }
  EXPECT_THAT(told, ::testing::ElementsAre(::testing::Pair(0, 0), ::testing::Pair(1, 1),
                                           ::testing::Pair(3, 1)));
}

TEST_F(StepReporterTest, OnStep_Log_ARowInTheFileOfEachRank) {
  EXPECT_EQ(LogOf(1)["rank"], 1);
  EXPECT_EQ(LogOf(3)["rank"], 3);
  EXPECT_EQ(LogOf(3)["loss"], 4);
  EXPECT_EQ(LogOf(3)["bytes_received"], 100);
}

// Of the process as a whole.
TEST_F(StepReporterTest, OnStep_MetricsOfTwoRanks_MeanLossAndSums) {
  const std::string text = prometheus::TextSerializer().Serialize(metrics_.registry()->Collect());
  EXPECT_THAT(text, ::testing::HasSubstr("\ngradwire_loss 3\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("\ngradwire_iterations_total 1\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("\ngradwire_samples_total 16\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("\ngradwire_bytes_total{direction=\"sent\"} 101\n"));
}

TEST_F(StepReporterTest, OnStep_BackendInForce_IsTheLabelOfIterations) {
  WorkerOptions options;
  options.backend = "sharded";
  WorkerMetrics metrics("ddp", "auto");
  auto reporter = StepReporter::Create(options, {{Rank(0)}, 1, 2, 2}, &metrics).value();
  reporter->OnStep({StepRecord()}, {});
  const std::string text = prometheus::TextSerializer().Serialize(metrics.registry()->Collect());
  EXPECT_THAT(text, ::testing::HasSubstr("gradwire_iteration_seconds_count{backend=\"sharded\""));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("backend=\"auto\"")));
}

TEST_F(StepReporterTest, Status_TwoRanks_EachItsLoss) {
  const std::vector<v1::RankStatus> statuses = reporter_->Status();
  ASSERT_EQ(statuses.size(), 2u);
  EXPECT_EQ(statuses[1].rank(), 3u);
  EXPECT_EQ(statuses[1].last_step().loss(), 4);
  EXPECT_EQ(statuses[1].steps_done(), 1u);
}

TEST_F(StepReporterTest, SummaryOf_SecondRank_ItsOwn) {
  const Summary summary = reporter_->SummaryOf(1);
  EXPECT_EQ(summary.rank, 3);
  EXPECT_EQ(summary.loss.first, 4);
  EXPECT_EQ(nlohmann::json::parse(ToJson(summary))["samples"]["seen"], 8);
}

TEST_F(StepReporterTest, SummaryOf_ResumedRun_HasItsOptionsAndPlace) {
  WorkerOptions options;
  options.sync = "diloco:8";
  options.backend = "sharded";
  options.wire = "bf16";
  options.compress = "int8";
  options.model = "lenet";
  options.dataset = "mnist";
  options.batch_size = 5;
  options.accumulate = 6;
  options.compute_seconds = ComputeSeconds{0.25, 0.5};
  options.late_seconds = 0.125;
  StepReporter::Run run{{Rank(2)}, 3, 10, 5};
  run.first_step = Step(4);
  const Summary summary = StepReporter::Create(options, run, &metrics_).value()->SummaryOf(0);
  EXPECT_EQ(summary.rank, 2);
  EXPECT_EQ(summary.world_size, 3);
  EXPECT_EQ(summary.sync, "diloco:8");
  EXPECT_EQ(summary.backend, "sharded");
  EXPECT_EQ(summary.wire, "bf16");
  EXPECT_EQ(summary.compress, "int8");
  EXPECT_EQ(summary.model, "lenet");
  EXPECT_EQ(summary.dataset, "mnist");
  EXPECT_EQ(summary.batch_size, 5);
  EXPECT_EQ(summary.accumulate, 6);
  EXPECT_EQ(summary.first_step, 4);
  ASSERT_TRUE(summary.emulated.has_value());
  EXPECT_EQ(summary.emulated->forward_seconds, 0.375);  // the late rank's
  EXPECT_EQ(summary.emulated->backward_seconds, 0.5);
  EXPECT_EQ(summary.failures.views, 1);
}

TEST_F(StepReporterTest, Create_ResumedRun_MetricsHaveTheLastStepDone) {
  StepReporter::Run run{{Rank(2)}, 3, 10, 5};
  run.first_step = Step(4);
  WorkerMetrics metrics("ddp", "ring");
  const auto reporter = StepReporter::Create(WorkerOptions(), run, &metrics).value();
  const std::string text = prometheus::TextSerializer().Serialize(metrics.registry()->Collect());
  EXPECT_THAT(text, ::testing::HasSubstr("\ngradwire_step 3\n"));
}

TEST_F(StepReporterTest, GoOn_AdoptsARank_ItsFilesSummaryAndMetrics) {
  Recovery recovery;
  recovery.generation = Generation(2);
  recovery.step = Step(1);
  recovery.change.lost = {{Incarnation(7), "10.10.1.2:7", {Rank(0)}}};
  recovery.change.adoptions = {{{Incarnation(8), "", {Rank(0), Rank(1), Rank(3)}}, {Rank(0)}}};
  recovery.ranks = {Rank(0), Rank(1), Rank(3)};
  recovery.heard = absl::FromUnixMillis(1'700'000'000'250);
  recovery.gone_on = absl::FromUnixMillis(1'700'000'000'500);
  recovery.lost = {absl::Milliseconds(500), absl::Milliseconds(125), absl::Milliseconds(250)};
  reporter_->GoOn(recovery);
  std::vector<StepRecord> reports(3);
  for (size_t i = 0; i < 3; ++i) reports[i].rank = recovery.ranks[i];
  reporter_->OnStep(reports, {});
  const nlohmann::json line = LinesOf(0).at(0);
  EXPECT_EQ(line["kind"], "recovery");
  EXPECT_EQ(line["rank"], 0);
  EXPECT_EQ(line["adopted"], nlohmann::json({0}));
  EXPECT_EQ(line["losses"], 1);
  EXPECT_EQ(line["lost_ranks"], nlohmann::json({0}));
  EXPECT_EQ(line["carriers"].dump(), R"([{"adopted":[0],"ranks":[0,1,3]}])");
  EXPECT_EQ(line["heard"], 1'700'000'000.25);
  EXPECT_EQ(line["seconds_lost"], 0.875);
  EXPECT_EQ(line["seconds_lost_by_phase"]["waiting"], 0.125);
  EXPECT_EQ(LinesOf(1).size(), 2u);
  const Summary::Failures failures = reporter_->SummaryOf(1).failures;
  EXPECT_EQ(failures.views, 2);
  EXPECT_EQ(failures.losses, 1);
  EXPECT_EQ(failures.recomputed_ranks, 1);
  EXPECT_EQ(failures.lost.total(), absl::Milliseconds(875));
  EXPECT_EQ(failures.recoveries.size(), 1u);
  EXPECT_THAT(reporter_->SummaryOf(1).ranks_of_worker, ::testing::ElementsAre(0, 1, 3));
  EXPECT_THAT(reporter_->SummaryOf(1).in_memory,
              ::testing::ElementsAre(::testing::ElementsAre(1, 3, 0)));
  const std::string text = prometheus::TextSerializer().Serialize(metrics_.registry()->Collect());
  EXPECT_THAT(text,
              ::testing::HasSubstr("\ngradwire_recovery_seconds_total{phase=\"computing\"} 0.5\n"));
}

TEST_F(StepReporterTest, GoOn_AdoptsARank_OthersKeepTheirStatus) {
  Recovery recovery;
  recovery.ranks = {Rank(0), Rank(1), Rank(3)};
  reporter_->GoOn(recovery);
  std::vector<StepRecord> reports(3);
  for (StepRecord& report : reports) report.step = Step(1);
  const std::vector<v1::RankStatus> before = reporter_->Status();
  ASSERT_EQ(before.size(), 3u);
  EXPECT_EQ(before[0].rank(), 0u);
  EXPECT_EQ(before[0].steps_done(), 0u);
  EXPECT_EQ(before[1].rank(), 1u);
  EXPECT_EQ(before[1].last_step().loss(), 2);
  EXPECT_EQ(before[2].last_step().loss(), 4);
  reporter_->OnStep(reports, {});
  for (const v1::RankStatus& status : reporter_->Status()) EXPECT_EQ(status.steps_done(), 2u);
}

// From totals up to the loss to totals behind it.
TEST_F(StepReporterTest, GoOn_AdoptsARank_BytesOfTheNextStepAreDividedAmongAll) {
  Recovery recovery;
  recovery.ranks = {Rank(0), Rank(1), Rank(3)};
  reporter_->GoOn(recovery);
  const auto done = reporter_->OnStep(std::vector<StepRecord>(3), {161, 290, 0});
  uint64_t sent = 0, received = 0;
  for (const v1::StepDone& of_rank : done) {
    sent += of_rank.bytes_sent();
    received += of_rank.bytes_received();
    EXPECT_NEAR(static_cast<double>(of_rank.bytes_sent()), 20, 1);
  }
  EXPECT_EQ(sent, 60u);
  EXPECT_EQ(received, 90u);
}

TEST_F(StepReporterTest, GoOn_AdoptsARank_ItsSummaryHasOnlyTheBytesSinceThen) {
  Recovery recovery;
  recovery.ranks = {Rank(0), Rank(1), Rank(3)};
  reporter_->GoOn(recovery);
  reporter_->OnStep(std::vector<StepRecord>(3), {161, 290, 0});
  std::vector<std::pair<uint64_t, uint64_t>> told;
  for (const Summary& summary : reporter_->Summaries()) {
    told.emplace_back(summary.bytes_sent, summary.bytes_received);
  }
  const std::vector<std::pair<uint64_t, uint64_t>> expected = {{20, 30}, {70, 130}, {71, 130}};
  EXPECT_EQ(told, expected);
}

TEST_F(StepReporterTest, SummaryOf_CompressedGradients_RatioOfTheWholeRun) {
  EXPECT_FALSE(reporter_->SummaryOf(0).compression_ratio.has_value());
  TransferTotals totals;
  totals.compressed.whole_bytes = 800;
  totals.compressed.coded_bytes = 400;
  reporter_->OnStep(std::vector<StepRecord>(2), totals);
  totals.compressed.whole_bytes = 1600;
  totals.compressed.coded_bytes = 500;
  const auto done = reporter_->OnStep(std::vector<StepRecord>(2), totals);
  EXPECT_EQ(reporter_->SummaryOf(1).compression_ratio, 3.2);
  EXPECT_EQ(LinesOf(3).back()["compression_ratio"], 8);
}

TEST_F(StepReporterTest, SummaryOf_TwoEpochs_QualityIsThatOfTheLast) {
  std::vector<StepRecord> reports(2);
  for (StepRecord& report : reports) {
    report.epoch = 1;
    report.loss = 0.5;
    report.samples = 8;
    report.correct = 6;
  }
  reporter_->OnEvaluation({{1.5, 0.25, 100}, {2.5, 0.5, 100}});
  reporter_->OnStep(reports, {});
  EXPECT_FALSE(reporter_->SummaryOf(1).test.has_value());
  reporter_->OnEvaluation({{1, 0.5, 100}, {2, 0.75, 100}});
  const Summary summary = reporter_->SummaryOf(1);
  EXPECT_EQ(summary.train.loss, 0.5);
  EXPECT_EQ(summary.train.accuracy, 0.75);
  EXPECT_EQ(summary.test->accuracy, 0.75);
  ASSERT_EQ(summary.epochs.size(), 2u);
  EXPECT_EQ(summary.epochs[0].train.loss, 4);
  EXPECT_EQ(summary.epochs[0].test->loss, 2.5);
}

TEST_F(StepReporterTest, SummaryOf_RankIsAdoptedInBetween_MeanNumberOfRanksOfItsIterations) {
  reporter_->OnStep(std::vector<StepRecord>(2), {});
  Recovery recovery;
  recovery.ranks = {Rank(0), Rank(1), Rank(3)};
  reporter_->GoOn(recovery);
  for (int step = 0; step < 2; ++step) reporter_->OnStep(std::vector<StepRecord>(3), {});
  EXPECT_EQ(reporter_->SummaryOf(0).mean_ranks_of_worker, 3);
  EXPECT_EQ(reporter_->SummaryOf(1).mean_ranks_of_worker, (2 + 3 + 3) / 3.0);
}

TEST_F(StepReporterTest, SummaryOf_TwoGroupsInMemory_HasBoth) {
  StepReporter::Run run{{Rank(1)}, 4, 10, 5};
  run.in_memory = {{Rank(0), Rank(1)}, {Rank(2), Rank(3)}};
  const Summary summary =
      StepReporter::Create(WorkerOptions(), run, &metrics_).value()->SummaryOf(0);
  EXPECT_THAT(summary.in_memory,
              ::testing::ElementsAre(::testing::ElementsAre(0, 1), ::testing::ElementsAre(2, 3)));
}

TEST_F(StepReporterTest, OnStep_TwoRanks_ProgressIsThatOfTheFirst) {
  ::testing::internal::CaptureStderr();
  reporter_ =
      StepReporter::Create(WorkerOptions(), {{Rank(1), Rank(3)}, 4, 10, 4}, &metrics_).value();
  std::vector<StepRecord> reports(2);
  reports[0].loss = 2;
  reports[1].loss = 4;
  for (StepRecord& report : reports) {
    report.samples = 8;
    report.iteration = absl::Seconds(1);
  }
  reporter_->OnStep(reports, {});
  const absl::Status finished = reporter_->Finish();
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(finished.ok());
  EXPECT_THAT(text, ::testing::HasSubstr("epoch 1/3 iteration 0/4 loss 2.0000  "
                                         "1.000 s/iteration  32 images/s"));
  EXPECT_THAT(text, ::testing::HasSubstr("epoch 1/3: loss 2.0000"));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("loss 4.0000")));
}

// Rank 0, which is adopted for the last step of the epoch, has no more of it than that step.
TEST_F(StepReporterTest, GoOn_AdoptsALowerRank_ProgressStaysThatOfItsOwnFirst) {
  ::testing::internal::CaptureStderr();
  WorkerOptions options;
  options.print_every = 1;
  reporter_ = StepReporter::Create(options, {{Rank(1), Rank(3)}, 4, 2, 2}, &metrics_).value();
  std::vector<StepRecord> reports(2);
  for (StepRecord& report : reports) report.samples = 8;
  reports[0].loss = 2;
  reporter_->OnStep(reports, {});
  Recovery recovery;
  recovery.ranks = {Rank(0), Rank(1), Rank(3)};
  reporter_->GoOn(recovery);
  reports.resize(3);
  for (StepRecord& report : reports) {
    report.step = Step(1);
    report.samples = 8;
    report.loss = 9;
  }
  reports[1].loss = 4;
  reporter_->OnStep(reports, {});
  const absl::Status finished = reporter_->Finish();
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(finished.ok());
  EXPECT_THAT(text, ::testing::HasSubstr("epoch 1/1 iteration 1/2 loss 4.0000"));
  EXPECT_THAT(text, ::testing::HasSubstr("epoch 1/1: loss 3.0000"));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("loss 9.0000")));
}

TEST_F(StepReporterTest, OnStep_LogOfOneRankOnAFullDisk_TheOtherLogGoesOn) {
  ASSERT_EQ(symlink("/dev/full", dir_.File("of1.jsonl").c_str()), 0);
  WorkerOptions options;
  options.log_jsonl = dir_.File("of{rank}.jsonl");
  reporter_ = StepReporter::Create(options, {{Rank(1), Rank(3)}, 4, 10, 5}, &metrics_).value();
  reporter_->OnStep(std::vector<StepRecord>(2), {});
  reporter_->OnStep(std::vector<StepRecord>(2), {});
  EXPECT_EQ(reporter_->Finish().code(), absl::StatusCode::kInternal);
  std::ifstream file(dir_.File("of3.jsonl"));
  int lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  EXPECT_EQ(lines, 3);  // two iterations and the epoch
}

TEST_F(StepReporterTest, GoOn_AdoptedRankHasALogHere_ItIsContinued) {
  std::ofstream(dir_.path() + "/rank0.jsonl") << R"({"step":0,"rank":0})" << std::endl;
  Recovery recovery;
  recovery.step = Step(1);
  recovery.change.adoptions = {{{Incarnation(8), "", {Rank(0), Rank(1), Rank(3)}}, {Rank(0)}}};
  recovery.ranks = {Rank(0), Rank(1), Rank(3)};
  reporter_->GoOn(recovery);
  const std::vector<nlohmann::json> lines = LinesOf(0);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["step"], 0);
  EXPECT_EQ(lines[1]["kind"], "recovery");
}

// As on a host whose worker carried rank 0 in an earlier run.
TEST_F(StepReporterTest, GoOn_AdoptedRankHasALogOfAnEarlierRunHere_ItIsReplaced) {
  std::ofstream(dir_.path() + "/of0.jsonl") << R"({"step":7,"rank":0})" << std::endl;
  WorkerOptions options;
  options.log_jsonl = dir_.File("of{rank}.jsonl");
  reporter_ = StepReporter::Create(options, {{Rank(1), Rank(3)}, 4, 10, 5}, &metrics_).value();
  Recovery recovery;
  recovery.ranks = {Rank(0), Rank(1), Rank(3)};
  reporter_->GoOn(recovery);
  std::ifstream file(dir_.File("of0.jsonl"));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["kind"], "recovery");
}

TEST_F(StepReporterTest, GoOn_LogOfTheAdoptedRankCannotBeWritten_RecoveryIsInTheNextLog) {
  std::filesystem::create_directory(dir_.path() + "/rank0.jsonl");
  Recovery recovery;
  recovery.ranks = {Rank(0), Rank(1), Rank(3)};
  reporter_->GoOn(recovery);
  const nlohmann::json line = LinesOf(1).back();
  EXPECT_EQ(line["kind"], "recovery");
  EXPECT_EQ(line["rank"], 1);
  EXPECT_EQ(LinesOf(3).size(), 1u);
}

TEST_F(StepReporterTest, GoOn_ResumedRunAdoptsARankWithALogHere_ItIsContinued) {
  std::ofstream(dir_.path() + "/of0.jsonl") << R"({"step":3,"rank":0})" << std::endl;
  WorkerOptions options;
  options.log_jsonl = dir_.File("of{rank}.jsonl");
  StepReporter::Run run{{Rank(1), Rank(3)}, 4, 10, 5};
  run.first_step = Step(4);
  reporter_ = StepReporter::Create(options, run, &metrics_).value();
  Recovery recovery;
  recovery.ranks = {Rank(0), Rank(1), Rank(3)};
  reporter_->GoOn(recovery);
  std::ifstream file(dir_.File("of0.jsonl"));
  int lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  EXPECT_EQ(lines, 2);
}

TEST_F(StepReporterTest, GoOn_LogWithoutTheRankInItsName_HasWholeRowsOfAll) {
  WorkerOptions options;
  options.log_jsonl = dir_.path() + "/own.jsonl";
  reporter_ = StepReporter::Create(options, {{Rank(2)}, 3, 9, 5}, &metrics_).value();
  Recovery recovery;
  recovery.ranks = {Rank(0), Rank(2)};
  reporter_->GoOn(recovery);
  std::vector<StepRecord> reports(2);
  reports[1].rank = Rank(2);
  reporter_->OnStep(reports, {});
  reporter_->OnStep(reports, {});
  std::ifstream file(options.log_jsonl);
  std::vector<int> ranks;
  for (std::string line; std::getline(file, line);) {
    ranks.push_back(nlohmann::json::parse(line)["rank"]);
  }
  EXPECT_THAT(ranks, ::testing::ElementsAre(0, 0, 2, 0, 2));
}

TEST_F(StepReporterTest, GoOn_Twice_FailuresAddUp) {
  Recovery recovery;
  recovery.change.lost.resize(2);
  recovery.lost.waiting = absl::Seconds(1);
  recovery.ranks = {Rank(1), Rank(2), Rank(3)};
  reporter_->GoOn(recovery);
  recovery.change.lost.resize(1);
  recovery.ranks = {Rank(0), Rank(1), Rank(2), Rank(3)};
  reporter_->GoOn(recovery);
  const Summary::Failures failures = reporter_->SummaryOf(0).failures;
  EXPECT_EQ(failures.views, 3);
  EXPECT_EQ(failures.losses, 3);
  EXPECT_EQ(failures.recomputed_ranks, 2);
  EXPECT_EQ(failures.lost.total(), absl::Seconds(2));
  EXPECT_THAT(failures.recoveries.back().adopted, ::testing::ElementsAre(Rank(0)));
}

TEST_F(StepReporterTest, GoOn_Twice_MetricsHaveTheLostTimeOfEachPhase) {
  Recovery recovery;
  recovery.ranks = {Rank(1), Rank(3)};
  recovery.lost = {absl::Seconds(1), absl::Seconds(2), absl::Seconds(4)};
  reporter_->GoOn(recovery);
  recovery.lost = {absl::Seconds(8), absl::Seconds(16), absl::Seconds(32)};
  reporter_->GoOn(recovery);
  const std::string text = prometheus::TextSerializer().Serialize(metrics_.registry()->Collect());
  for (const char* lost :
       {"{phase=\"computing\"} 9\n", "{phase=\"waiting\"} 18\n", "{phase=\"connecting\"} 36\n"}) {
    EXPECT_THAT(text, ::testing::HasSubstr(std::string("gradwire_recovery_seconds_total") + lost));
  }
}

// Another worker may be lost in an evaluation, or behind the last step.
TEST_F(StepReporterTest, GoOn_OnlyOnceWithinAStep_OneRetry) {
  Recovery recovery;
  recovery.ranks = {Rank(1), Rank(3)};
  recovery.recomputes = true;
  reporter_->GoOn(recovery);
  recovery.recomputes = false;
  reporter_->GoOn(recovery);
  EXPECT_EQ(reporter_->SummaryOf(0).failures.retries, 1);
}

// The model is served.
TEST_F(StepReporterTest, OnStep_ClocksOfTheRanks_LagOfThisOneAndSpreadOfAll) {
  std::vector<StepRecord> reports(2);
  for (StepRecord& report : reports) report.step = Step(4);  // its clock is 5
  TransferTotals totals;
  totals.clocks.slowest = 3;
  totals.clocks.fastest = 9;
  reporter_->OnStep(reports, totals);
  totals.clocks.fastest = 4;  // an answer from before this rank's own step
  reporter_->OnStep(reports, totals);
  const std::vector<nlohmann::json> lines = LinesOf(3);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_FALSE(lines[0].contains("lag"));
  EXPECT_EQ(lines[1]["lag"], 4);
  EXPECT_EQ(lines[1]["spread"], 6);
  EXPECT_FALSE(lines[2].contains("lag"));
}

TEST_F(StepReporterTest, Create_RunThatResumes_LogGoesOn) {
  WorkerOptions options;
  options.log_jsonl = dir_.File("rank5.jsonl");
  StepReporter::Run run{{Rank(5)}, 6, 10, 5};
  for (const uint64_t first : {0, 4}) {
    run.first_step = Step(first);
    reporter_ = StepReporter::Create(options, run, &metrics_).value();
    StepRecord record;
    record.step = Step(first);
    record.rank = Rank(5);
    reporter_->OnStep({record}, {});
  }
  const std::vector<nlohmann::json> lines = LinesOf(5);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["step"], 0);
  EXPECT_EQ(lines[1]["step"], 4);
}

TEST_F(StepReporterTest, Finish_Evaluated_EachRanksEpochInLogAndSummary) {
  reporter_->OnEvaluation({{1.5, 0.25, 100}, {2.5, 0.75, 100}});
  ASSERT_TRUE(reporter_->Finish().ok());
  ASSERT_EQ(LinesOf(3).size(), 2u);
  EXPECT_EQ(LinesOf(3)[1]["kind"], "epoch");
  EXPECT_EQ(LinesOf(3)[1]["test"]["loss"], 2.5);
  const Summary summary = reporter_->SummaryOf(1);
  EXPECT_EQ(summary.train.loss, 4);
  EXPECT_EQ(summary.test->accuracy, 0.75);
  EXPECT_EQ(summary.epochs.size(), 1u);
}

TEST(StepReporter, Log_OnAFullDisk_IsGivenUpAndToldAtTheEnd) {
  WorkerOptions options;
  options.log_jsonl = "/dev/full";
  WorkerMetrics metrics("all-reduce", "ring");
  auto reporter = *StepReporter::Create(options, {{Rank(0)}, 1, 2, 2}, &metrics);
  EXPECT_EQ(reporter->OnStep({StepRecord()}, {}).size(), 1u);
  EXPECT_EQ(reporter->OnStep({StepRecord()}, {}).size(), 1u);
  EXPECT_EQ(reporter->Finish().code(), absl::StatusCode::kInternal);
}

TEST_F(StepReporterTest, OnStep_NextEpoch_RowOfTheOneBeforeStandsInFrontOfIt) {
  std::vector<StepRecord> reports(2);
  for (StepRecord& report : reports) report.epoch = 1;
  reporter_->OnStep(reports, {});
  const std::vector<nlohmann::json> lines = LinesOf(1);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1]["kind"], "epoch");
  EXPECT_EQ(lines[1]["epoch"], 0);
  EXPECT_EQ(lines[2]["epoch"], 1);
}

}  // namespace
}  // namespace gradwire
