#include "common/telemetry/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Text(const ProcessMetrics& metrics) {
  return prometheus::TextSerializer().Serialize(metrics.registry()->Collect());
}

StepRecord SomeStep() {
  StepRecord record;
  record.step = Step(6);
  record.loss = 2.5;
  record.samples = 64;
  record.correct = 3;
  record.iteration = absl::Milliseconds(350);
  record.bytes_sent = 1000;
  record.bytes_received = 7;
  return record;
}

TEST(WorkerMetrics, Observe_Twice_CountsIterationsSamplesAndBytes) {
  WorkerMetrics metrics("gather-scatter", "coordinator");
  metrics.Observe(SomeStep());
  metrics.Observe(SomeStep());
  const std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("gradwire_iterations_total 2\n"));
  EXPECT_THAT(text, HasSubstr("gradwire_samples_total 128\n"));
  EXPECT_THAT(text, HasSubstr("gradwire_correct_samples_total 6\n"));
  EXPECT_THAT(text, HasSubstr("gradwire_bytes_total{direction=\"sent\"} 2000\n"));
  EXPECT_THAT(text, HasSubstr("gradwire_bytes_total{direction=\"received\"} 14\n"));
}

TEST(WorkerMetrics, Observe_CompressedGradients_RatioAndResidual) {
  WorkerMetrics metrics("ddp", "sharded");
  metrics.Observe(SomeStep());
  EXPECT_THAT(Text(metrics), Not(HasSubstr("gradwire_compression_ratio ")));
  StepRecord record = SomeStep();
  record.compressed = {3.5, 0.25};
  metrics.Observe(record);
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_compression_ratio 3.5\n"));
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_residual_norm 0.25\n"));
}

TEST(WorkerMetrics, Observe_ModelThatIsServed_LagAndSpreadOfTheLastStep) {
  WorkerMetrics metrics("parameter-server", "coordinator");
  StepRecord record = SomeStep();
  record.staleness = {4, 6};
  metrics.Observe(record);
  record.staleness = {3, 5};
  metrics.Observe(record);
  const std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("\ngradwire_lag_steps 3\n"));
  EXPECT_THAT(text, HasSubstr("\ngradwire_clock_spread_steps 5\n"));
}

TEST(CoordinatorMetrics, CountRecovery_Twice_RanksAndSecondsAddUp) {
  CoordinatorMetrics metrics;
  metrics.CountRecovery(2);
  metrics.CountLostTime(absl::Milliseconds(250));
  metrics.CountRecovery(1);
  metrics.CountLostTime(absl::Milliseconds(500));
  const std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("\ngradwire_recoveries_total 2\n"));
  EXPECT_THAT(text, HasSubstr("\ngradwire_recovered_ranks_total 3\n"));
  EXPECT_THAT(text, HasSubstr("\ngradwire_lost_seconds_total 0.75\n"));
}

TEST(CoordinatorMetrics, Observe_ModelThatIsServed_LagOfEachAndOneSpread) {
  CoordinatorMetrics metrics;
  StepRecord record;
  record.staleness = {1, 7};
  metrics.Observe(record);
  record.rank = Rank(2);
  record.staleness = {3, 8};
  metrics.Observe(record);
  const std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("\ngradwire_lag_steps{rank=\"0\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\ngradwire_lag_steps{rank=\"2\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("\ngradwire_clock_spread_steps 8\n"));
}

TEST(CoordinatorMetrics, Observe_CompressedGradients_HasItsLabel) {
  CoordinatorMetrics metrics;
  StepRecord record;
  record.rank = Rank(3);
  record.compressed = {3.5, absl::nullopt};
  metrics.Observe(record);
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_compression_ratio{rank=\"3\"} 3.5\n"));
  EXPECT_THAT(Text(metrics), Not(HasSubstr("gradwire_residual_norm{")));
}

TEST(WorkerMetrics, Observe_Twice_KeepsTheLastLossAndStep) {
  WorkerMetrics metrics("none", "none");
  StepRecord record = SomeStep();
  metrics.Observe(record);
  record.loss = 1.25;
  record.step = Step(7);
  metrics.Observe(record);
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_loss 1.25\n"));
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_step 7\n"));
}

// As of a program on the library that does not call report_loss.
TEST(WorkerMetrics, Observe_LossIsNotTold_ShowsNone) {
  WorkerMetrics metrics("ddp", "ring");
  EXPECT_THAT(Text(metrics), Not(HasSubstr("\ngradwire_loss ")));
  StepRecord record = SomeStep();
  record.loss_told = false;
  record.loss = std::numeric_limits<double>::quiet_NaN();
  metrics.Observe(record);
  EXPECT_THAT(Text(metrics), Not(HasSubstr("\ngradwire_loss ")));
}

TEST(WorkerMetrics, Observe_Once_LabelsIterationWithSyncAndBackend) {
  WorkerMetrics metrics("all-reduce", "ring");
  metrics.Observe(SomeStep());
  EXPECT_THAT(
      Text(metrics),
      HasSubstr("gradwire_iteration_seconds_sum{backend=\"ring\",sync=\"all-reduce\"} 0.35\n"));
}

// As of a worker with back end auto: the view decides.
TEST(WorkerMetrics, SetBackend_BeforeTheFirstIteration_IsTheOnlyLabel) {
  WorkerMetrics metrics("ddp", "auto");
  metrics.SetBackend("memory");
  metrics.Observe(SomeStep());
  EXPECT_THAT(Text(metrics),
              HasSubstr("gradwire_iteration_seconds_sum{backend=\"memory\",sync=\"ddp\"} 0.35\n"));
  EXPECT_THAT(Text(metrics), Not(HasSubstr("backend=\"auto\"")));
}

TEST(WorkerMetrics, Observe_Once_TellsThePhasesApart) {
  WorkerMetrics metrics("all-reduce", "ring");
  StepRecord record = SomeStep();
  for (const PhaseInfo& info : kPhases) {
    record.phases[info.phase] = absl::Milliseconds(250) * (1 + static_cast<int>(info.phase));
  }
  metrics.Observe(record);
  const std::string text = Text(metrics);
  for (const PhaseInfo& info : kPhases) {
    EXPECT_THAT(text,
                HasSubstr(absl::StrCat("gradwire_phase_seconds_sum{phase=\"", info.name, "\"} ",
                                       0.25 * (1 + static_cast<int>(info.phase)), "\n")));
  }
}

TEST(WorkerMetrics, Registry_BeforeAnything_HasBucketsFromMillisecondToMinute) {
  const std::string text = Text(WorkerMetrics("none", "none"));
  EXPECT_THAT(text, HasSubstr("gradwire_phase_seconds_bucket{phase=\"data\",le=\"0.001\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("gradwire_phase_seconds_bucket{phase=\"data\",le=\"60\"} 0\n"));
}

TEST(WorkerMetrics, Registry_BeforeAnything_NamesTheVersion) {
  EXPECT_THAT(Text(WorkerMetrics("none", "none")),
              HasSubstr("gradwire_build_info{version=\"" GRADWIRE_VERSION "\"} 1\n"));
}

TEST(WorkerMetrics, CountWireOverflows_SomeSteps_AddsThem) {
  WorkerMetrics metrics("none", "none");
  metrics.CountWireOverflows(0);
  metrics.CountWireOverflows(2);
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_wire_overflows_total 2\n"));
}

TEST(WorkerMetrics, Observe_SkippedStep_CountsIt) {
  WorkerMetrics metrics("none", "none");
  StepRecord record;
  metrics.Observe(record);
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_skipped_steps_total 0\n"));
  record.skipped = true;
  metrics.Observe(record);
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_skipped_steps_total 1\n"));
}

TEST(WorkerMetrics, CountSentAndReceived_SomeBytes_AddsByDirection) {
  WorkerMetrics metrics("none", "none");
  metrics.CountSent(1000);
  metrics.CountSent(24);
  metrics.CountReceived(7);
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_bytes_total{direction=\"sent\"} 1024\n"));
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_bytes_total{direction=\"received\"} 7\n"));
}

TEST(WorkerMetrics, CountSent_FromManyThreads_LosesNothing) {
  WorkerMetrics metrics("none", "none");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&metrics] {
      for (int n = 0; n < 1000; ++n) metrics.CountSent(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_bytes_total{direction=\"sent\"} 4000\n"));
}

TEST(CoordinatorMetrics, SetView_Always_ShowsWorkersAndGeneration) {
  CoordinatorMetrics metrics;
  metrics.SetView(3, Generation(2));
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_workers 3\n"));
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_generation 2\n"));
}

TEST(CoordinatorMetrics, SetStep_Always_ShowsStep) {
  CoordinatorMetrics metrics;
  metrics.SetStep(Step(41));
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_step 41\n"));
}

TEST(CoordinatorMetrics, SetTotalSteps_Always_ShowsThem) {
  CoordinatorMetrics metrics;
  metrics.SetTotalSteps(196);
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_total_steps 196\n"));
}

TEST(CoordinatorMetrics, ObserveRankLag_TwoRanks_KeepsThemApart) {
  CoordinatorMetrics metrics;
  metrics.ObserveRankLag(Rank(0), absl::ZeroDuration());
  metrics.ObserveRankLag(Rank(1), absl::Seconds(1.5));
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_rank_lag_seconds_sum{rank=\"0\"} 0\n"));
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_rank_lag_seconds_sum{rank=\"1\"} 1.5\n"));
}

TEST(CoordinatorMetrics, ObserveRankLag_DeprecatedName_HasTheSame) {
  CoordinatorMetrics metrics;
  metrics.ObserveRankLag(Rank(1), absl::Seconds(1.5));
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_rank_wait_seconds_sum{rank=\"1\"} 1.5\n"));
}

TEST(CoordinatorMetrics, CountRpcError_Twice_CountsByCode) {
  CoordinatorMetrics metrics;
  metrics.CountRpcError(absl::StatusCode::kUnavailable);
  metrics.CountRpcError(absl::StatusCode::kUnavailable);
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_rpc_errors_total{code=\"UNAVAILABLE\"} 2\n"));
}

TEST(CoordinatorMetrics, CountRpcError_Ok_IsNotCounted) {
  CoordinatorMetrics metrics;
  metrics.CountRpcError(absl::StatusCode::kOk);
  EXPECT_THAT(Text(metrics), Not(HasSubstr("code=\"OK\"")));
}

TEST(CoordinatorMetrics, Registry_OfTwoObjects_IsNotShared) {
  CoordinatorMetrics one, other;
  one.SetStep(Step(5));
  EXPECT_THAT(Text(other), HasSubstr("gradwire_step 0\n"));
}

TEST(CoordinatorMetrics, SetCheckpoint_Twice_TheLastCounts) {
  CoordinatorMetrics metrics;
  EXPECT_THAT(Text(metrics), HasSubstr("\ngradwire_checkpoint_step 0\n"));
  metrics.SetCheckpoint(Step(10), absl::FromUnixSeconds(500), 4000, absl::Seconds(9));
  metrics.SetCheckpoint(Step(20), absl::FromUnixSeconds(1000), 5000, absl::Milliseconds(2500));
  const std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("\ngradwire_checkpoint_step 20\n"));
  EXPECT_THAT(text, HasSubstr("\ngradwire_checkpoint_timestamp_seconds 1000\n"));
  EXPECT_THAT(text, HasSubstr("\ngradwire_checkpoint_bytes 5000\n"));
  EXPECT_THAT(text, HasSubstr("\ngradwire_checkpoint_seconds 2.5\n"));
}

TEST(CoordinatorMetrics, CountCheckpoint_WrittenAndFailed_AreToldApart) {
  CoordinatorMetrics metrics;
  metrics.CountCheckpoint(true);
  metrics.CountCheckpoint(false);
  metrics.CountCheckpoint(true);
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_checkpoints_total{result=\"written\"} 2\n"));
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_checkpoints_total{result=\"failed\"} 1\n"));
}

TEST(CoordinatorMetrics, CountStraggler_TwoRanks_KeepsThemApart) {
  CoordinatorMetrics metrics;
  metrics.CountStraggler(Rank(1));
  metrics.CountStraggler(Rank(3));
  metrics.CountStraggler(Rank(1));
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_stragglers_total{rank=\"1\"} 2\n"));
  EXPECT_THAT(Text(metrics), HasSubstr("gradwire_stragglers_total{rank=\"3\"} 1\n"));
}

TEST(CoordinatorMetrics, Ledger_OnlyARunWithOne_HasItsSeries) {
  CoordinatorMetrics metrics;
  EXPECT_THAT(Text(metrics), Not(HasSubstr("gradwire_ledger_durable ")));
  metrics.SetLedgerDurable(true);
  EXPECT_THAT(Text(metrics), HasSubstr("\ngradwire_ledger_durable 1\n"));
  metrics.SetLedgerDurable(false);
  metrics.ObserveLedgerSync(absl::Milliseconds(250), absl::Milliseconds(500));
  metrics.ObserveLedgerSync(absl::Milliseconds(500), absl::Milliseconds(250));
  const std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("\ngradwire_ledger_durable 0\n"));
  EXPECT_THAT(text, HasSubstr("\ngradwire_ledger_fsync_seconds_count 2\n"));
  EXPECT_THAT(text, HasSubstr("\ngradwire_ledger_fsync_seconds_sum 0.75\n"));
  EXPECT_THAT(text, HasSubstr("\ngradwire_ledger_cpu_seconds_total 0.75\n"));
}

TEST(CoordinatorMetrics, NumbersOfTheRun_AreTheLastSet) {
  CoordinatorMetrics metrics;
  metrics.SetMinWorkers(4);
  metrics.SetMinWorkers(2);
  metrics.SetLoss(2.5);
  metrics.SetLoss(1.25);
  metrics.SetResumedStep(Step(12));
  metrics.CountLostWorker();
  metrics.CountLostWorker();
  const std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("\ngradwire_min_workers 2\n"));
  EXPECT_THAT(text, HasSubstr("\ngradwire_loss 1.25\n"));
  EXPECT_THAT(text, HasSubstr("\ngradwire_resumed_step 12\n"));
  EXPECT_THAT(text, HasSubstr("\ngradwire_lost_workers_total 2\n"));
}

TEST(WorkerMetrics, CountLostTime_SeveralLosses_AddUpByPhase) {
  WorkerMetrics metrics("ddp", "ring");
  metrics.CountLostTime("waiting", absl::Milliseconds(250));
  metrics.CountLostTime("computing", absl::Seconds(3));
  metrics.CountLostTime("waiting", absl::Milliseconds(500));
  const std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("gradwire_recovery_seconds_total{phase=\"computing\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("gradwire_recovery_seconds_total{phase=\"waiting\"} 0.75\n"));
  EXPECT_THAT(text, HasSubstr("gradwire_recovery_seconds_total{phase=\"connecting\"} 0\n"));
}

}  // namespace
}  // namespace gradwire
