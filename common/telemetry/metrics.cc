#include "common/telemetry/metrics.h"

#include <string>

namespace gradwire {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;

// Seconds. From a transfer on a fast network to a step on a slow machine.
Histogram::BucketBoundaries SecondsBuckets() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
}

Gauge& MakeGauge(Registry* registry, const char* name, const char* help) {
  return BuildGauge().Name(name).Help(help).Register(*registry).Add({});
}

Counter& MakeCounter(Registry* registry, const char* name, const char* help) {
  return BuildCounter().Name(name).Help(help).Register(*registry).Add({});
}

Gauge& Workers(Registry* registry) {
  return MakeGauge(registry, "gradwire_workers", "Worker processes in the view.");
}

Gauge& GenerationGauge(Registry* registry) {
  return MakeGauge(registry, "gradwire_generation", "Number of the view in force.");
}

Gauge& StepGauge(Registry* registry) {
  return MakeGauge(registry, "gradwire_step", "Step that is being worked on.");
}

Gauge& Loss(Registry* registry) {
  return MakeGauge(registry, "gradwire_loss", "Mean loss over this worker's last batch.");
}

Gauge& MeanLoss(Registry* registry) {
  return MakeGauge(registry, "gradwire_loss", "Mean over the ranks' losses in the last step.");
}

Gauge& MinWorkers(Registry* registry) {
  return MakeGauge(registry, "gradwire_min_workers", "Worker processes that the run needs.");
}

Gauge& TotalSteps(Registry* registry) {
  return MakeGauge(registry, "gradwire_total_steps",
                   "Steps of the run; 0 until the first one is done.");
}

Counter& LostWorkers(Registry* registry) {
  return MakeCounter(registry, "gradwire_lost_workers_total",
                     "Workers that the run lost while it was under way.");
}

Counter& Recoveries(Registry* registry) {
  return MakeCounter(registry, "gradwire_recoveries_total",
                     "Times that the others went on without a worker that was lost.");
}

Counter& RecoveredRanks(Registry* registry) {
  return MakeCounter(registry, "gradwire_recovered_ranks_total",
                     "Ranks that others carry on, as their worker was lost.");
}

Counter& LostSeconds(Registry* registry) {
  return MakeCounter(registry, "gradwire_lost_seconds_total",
                     "What losses cost the run: of each, the time of the worker that lost most.");
}

Family<Counter>& Stragglers(Registry* registry) {
  return BuildCounter()
      .Name("gradwire_stragglers_total")
      .Help("Steps in which others waited for a rank for long, and the log says so.")
      .Register(*registry);
}

Family<Counter>& LostTimeOfWorker(Registry* registry) {
  Family<Counter>& family = BuildCounter()
                                .Name("gradwire_recovery_seconds_total")
                                .Help(
                                    "What losses of others cost this worker: computing in vain, "
                                    "waiting for the next view, connecting anew.")
                                .Register(*registry);
  for (const char* phase : {"computing", "waiting", "connecting"}) family.Add({{"phase", phase}});
  return family;
}

Counter& Iterations(Registry* registry) {
  return MakeCounter(registry, "gradwire_iterations_total", "Iterations that ended.");
}

Counter& Samples(Registry* registry) {
  return MakeCounter(registry, "gradwire_samples_total", "Samples that this worker trained on.");
}

Counter& Correct(Registry* registry) {
  return MakeCounter(registry, "gradwire_correct_samples_total",
                     "Of the samples, those that the model got right before the update.");
}

Counter& WireOverflows(Registry* registry) {
  return MakeCounter(registry, "gradwire_wire_overflows_total",
                     "Steps in which a gradient of this worker was too large for the wire type.");
}

Counter& SkippedSteps(Registry* registry) {
  return MakeCounter(registry, "gradwire_skipped_steps_total",
                     "Steps whose update was left out, as the mean gradient was not finite.");
}

Counter& Bytes(Registry* registry, const char* direction) {
  return BuildCounter()
      .Name("gradwire_bytes_total")
      .Help("Payload of gradients and buffers, without headers.")
      .Register(*registry)
      .Add({{"direction", direction}});
}

Family<Counter>& RpcErrors(Registry* registry) {
  return BuildCounter()
      .Name("gradwire_rpc_errors_total")
      .Help("RPCs that ended with an error.")
      .Register(*registry);
}

Histogram& Iteration(Registry* registry, absl::string_view sync, absl::string_view backend) {
  return BuildHistogram()
      .Name("gradwire_iteration_seconds")
      .Help("Wall time of an iteration.")
      .Register(*registry)
      .Add({{"sync", std::string(sync)}, {"backend", std::string(backend)}}, SecondsBuckets());
}

PerPhase<Histogram*> Phases(Registry* registry) {
  Family<Histogram>& family = BuildHistogram()
                                  .Name("gradwire_phase_seconds")
                                  .Help("Wall time of a phase in an iteration; phases may overlap.")
                                  .Register(*registry);
  PerPhase<Histogram*> phases;
  for (const PhaseInfo& info : kPhases) {
    phases[info.phase] = &family.Add({{"phase", info.name}}, SecondsBuckets());
  }
  return phases;
}

Family<Histogram>& RankWait(Registry* registry) {
  return BuildHistogram()
      .Name("gradwire_rank_wait_seconds")
      .Help("How much later than the first rank's a rank's contribution was complete.")
      .Register(*registry);
}

Family<Gauge>& Lag(Registry* registry) {
  return BuildGauge()
      .Name("gradwire_lag_steps")
      .Help("Steps that the fastest rank was ahead of this one; of a model that is served.")
      .Register(*registry);
}

Family<Gauge>& Spread(Registry* registry) {
  return BuildGauge()
      .Name("gradwire_clock_spread_steps")
      .Help("Steps that the fastest rank was ahead of the slowest; of a model that is served.")
      .Register(*registry);
}

Family<Gauge>& Ratio(Registry* registry) {
  return BuildGauge()
      .Name("gradwire_compression_ratio")
      .Help("Bytes of gradients in float32 over those that travelled, in the last step.")
      .Register(*registry);
}

Family<Gauge>& Residual(Registry* registry) {
  return BuildGauge()
      .Name("gradwire_residual_norm")
      .Help("L2 norm of what compression has left out so far over that of the gradients.")
      .Register(*registry);
}

void SetCompression(const StepRecord::Compressed& compressed, const prometheus::Labels& labels,
                    Family<Gauge>* ratio, Family<Gauge>* residual) {
  ratio->Add(labels).Set(compressed.ratio);
  if (compressed.residual.has_value()) residual->Add(labels).Set(*compressed.residual);
}

void AddBuildInfo(Registry* registry) {
  BuildGauge()
      .Name("gradwire_build_info")
      .Help("Always 1; the version is in the label.")
      .Register(*registry)
      .Add({{"version", GRADWIRE_VERSION}})
      .Set(1);
}

void ObserveSeconds(Histogram* histogram, absl::Duration duration) {
  histogram->Observe(absl::ToDoubleSeconds(duration));
}

}  // namespace

ProcessMetrics::ProcessMetrics()
    : registry_(std::make_shared<Registry>()),
      workers_(Workers(registry_.get())),
      generation_(GenerationGauge(registry_.get())),
      step_(StepGauge(registry_.get())),
      bytes_sent_(Bytes(registry_.get(), "sent")),
      bytes_received_(Bytes(registry_.get(), "received")),
      rpc_errors_(RpcErrors(registry_.get())) {
  AddBuildInfo(registry_.get());
}

void ProcessMetrics::SetView(int workers, Generation generation) {
  workers_.Set(workers);
  generation_.Set(static_cast<double>(generation.value()));
}

void ProcessMetrics::SetStep(Step step) { step_.Set(static_cast<double>(step.value())); }

void ProcessMetrics::CountSent(uint64_t bytes) {
  bytes_sent_.Increment(static_cast<double>(bytes));
}

void ProcessMetrics::CountReceived(uint64_t bytes) {
  bytes_received_.Increment(static_cast<double>(bytes));
}

void ProcessMetrics::CountRpcError(absl::StatusCode code) {
  if (code == absl::StatusCode::kOk) return;
  rpc_errors_.Add({{"code", absl::StatusCodeToString(code)}}).Increment();
}

WorkerMetrics::WorkerMetrics(absl::string_view sync, absl::string_view backend)
    : iteration_(Iteration(registry().get(), sync, backend)),
      phases_(Phases(registry().get())),
      iterations_(Iterations(registry().get())),
      samples_(Samples(registry().get())),
      correct_(Correct(registry().get())),
      loss_(Loss(registry().get())),
      wire_overflows_(WireOverflows(registry().get())),
      skipped_steps_(SkippedSteps(registry().get())),
      lag_(Lag(registry().get())),
      spread_(Spread(registry().get())),
      lost_time_(LostTimeOfWorker(registry().get())),
      ratio_(Ratio(registry().get())),
      residual_(Residual(registry().get())) {}

void WorkerMetrics::Observe(const StepRecord& record) {
  ObserveSeconds(&iteration_, record.iteration);
  for (const PhaseInfo& info : kPhases) {
    ObserveSeconds(phases_[info.phase], record.phases[info.phase]);
  }
  iterations_.Increment();
  samples_.Increment(static_cast<double>(record.samples));
  correct_.Increment(static_cast<double>(record.correct));
  skipped_steps_.Increment(record.skipped ? 1 : 0);
  loss_.Set(record.loss);
  SetStep(record.step);
  CountSent(record.bytes_sent);
  CountReceived(record.bytes_received);
  if (record.compressed.has_value()) SetCompression(*record.compressed, {}, &ratio_, &residual_);
  if (!record.staleness.has_value()) return;
  lag_.Add({}).Set(static_cast<double>(record.staleness->lag));
  spread_.Add({}).Set(static_cast<double>(record.staleness->spread));
}

void WorkerMetrics::CountWireOverflows(uint64_t steps) {
  wire_overflows_.Increment(static_cast<double>(steps));
}

void WorkerMetrics::CountLostTime(absl::string_view phase, absl::Duration lost) {
  lost_time_.Add({{"phase", std::string(phase)}}).Increment(absl::ToDoubleSeconds(lost));
}

CoordinatorMetrics::CoordinatorMetrics()
    : min_workers_(MinWorkers(registry().get())),
      total_steps_(TotalSteps(registry().get())),
      loss_(MeanLoss(registry().get())),
      lost_workers_(LostWorkers(registry().get())),
      recoveries_(Recoveries(registry().get())),
      recovered_ranks_(RecoveredRanks(registry().get())),
      lost_seconds_(LostSeconds(registry().get())),
      stragglers_(Stragglers(registry().get())),
      rank_wait_(RankWait(registry().get())),
      lag_(Lag(registry().get())),
      spread_(Spread(registry().get())),
      ratio_(Ratio(registry().get())),
      residual_(Residual(registry().get())) {}

void CoordinatorMetrics::SetMinWorkers(int workers) { min_workers_.Set(workers); }

void CoordinatorMetrics::SetTotalSteps(uint64_t steps) {
  total_steps_.Set(static_cast<double>(steps));
}

void CoordinatorMetrics::SetLoss(double loss) { loss_.Set(loss); }

void CoordinatorMetrics::SetStaleness(Rank rank, const StepRecord::Staleness& staleness) {
  lag_.Add({{"rank", absl::StrCat(rank.value())}}).Set(static_cast<double>(staleness.lag));
  spread_.Add({}).Set(static_cast<double>(staleness.spread));
}

void CoordinatorMetrics::SetCompressed(Rank rank, const StepRecord::Compressed& compressed) {
  SetCompression(compressed, {{"rank", absl::StrCat(rank.value())}}, &ratio_, &residual_);
}

void CoordinatorMetrics::CountLostWorker() { lost_workers_.Increment(); }

void CoordinatorMetrics::CountRecovery(size_t ranks) {
  recoveries_.Increment();
  recovered_ranks_.Increment(static_cast<double>(ranks));
}

void CoordinatorMetrics::CountLostTime(absl::Duration lost) {
  lost_seconds_.Increment(absl::ToDoubleSeconds(lost));
}

void CoordinatorMetrics::CountStraggler(Rank rank) {
  stragglers_.Add({{"rank", absl::StrCat(rank.value())}}).Increment();
}

void CoordinatorMetrics::ObserveRankWait(Rank rank, absl::Duration wait) {
  ObserveSeconds(&rank_wait_.Add({{"rank", absl::StrCat(rank.value())}}, SecondsBuckets()), wait);
}

}  // namespace gradwire
