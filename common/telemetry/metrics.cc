#include "common/telemetry/metrics.h"

#include <string>

namespace gradwire {
namespace {

using prometheus::Family;
using prometheus::Histogram;

// In seconds, from a transfer on a fast network to a step on a slow machine.
Histogram::BucketBoundaries SecondsBuckets() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
}

PerPhase<Histogram*> Phases(Family<Histogram>& family) {
  PerPhase<Histogram*> phases;
  for (const PhaseInfo& info : kPhases) {
    phases[info.phase] = &family.Add({{"phase", info.name}}, SecondsBuckets());
  }
  return phases;
}

void ObserveSeconds(Histogram* histogram, absl::Duration duration) {
  histogram->Observe(absl::ToDoubleSeconds(duration));
}

}  // namespace

ProcessMetrics::ProcessMetrics() {
  NewGauges("gradwire_build_info", "Always 1; the version is in the label.")
      .Add({{"version", GRADWIRE_VERSION}})
      .Set(1);
}

Family<prometheus::Counter>& ProcessMetrics::NewCounters(const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(*registry_);
}

Family<prometheus::Gauge>& ProcessMetrics::NewGauges(const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(*registry_);
}

Family<Histogram>& ProcessMetrics::NewHistograms(const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(*registry_);
}

prometheus::Counter& ProcessMetrics::NewCounter(const char* name, const char* help) {
  return NewCounters(name, help).Add({});
}

prometheus::Gauge& ProcessMetrics::NewGauge(const char* name, const char* help) {
  return NewGauges(name, help).Add({});
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
    : sync_(sync),
      iteration_(&iteration_seconds_.Add({{"sync", sync_}, {"backend", std::string(backend)}},
                                         SecondsBuckets())),
      phases_(Phases(NewHistograms("gradwire_phase_seconds",
                                   "Wall time of a phase in an iteration; phases may overlap."))) {
  for (const char* phase : {"computing", "waiting", "connecting"}) {
    lost_time_.Add({{"phase", phase}});
  }
}

void WorkerMetrics::SetBackend(absl::string_view backend) {
  iteration_seconds_.Remove(iteration_);
  iteration_ = &iteration_seconds_.Add({{"sync", sync_}, {"backend", std::string(backend)}},
                                       SecondsBuckets());
}

void WorkerMetrics::SetFirstStep(Step first) {
  if (first > Step(0)) SetStep(Step(first.value() - 1));
}

void WorkerMetrics::Observe(const StepRecord& record) {
  ObserveSeconds(iteration_, record.iteration);
  for (const PhaseInfo& info : kPhases) {
    ObserveSeconds(phases_[info.phase], record.phases[info.phase]);
  }
  iterations_.Increment();
  SetStep(record.step);
  CountSent(record.bytes_sent);
  CountReceived(record.bytes_received);
  figures_.Observe(record);
}

void WorkerMetrics::CountWireOverflows(uint64_t steps) {
  wire_overflows_.Increment(static_cast<double>(steps));
}

void WorkerMetrics::CountLostTime(absl::string_view phase, absl::Duration lost) {
  lost_time_.Add({{"phase", std::string(phase)}}).Increment(absl::ToDoubleSeconds(lost));
}

void CoordinatorMetrics::SetMinWorkers(int workers) { min_workers_.Set(workers); }

void CoordinatorMetrics::SetTotalSteps(uint64_t steps) {
  total_steps_.Set(static_cast<double>(steps));
}

void CoordinatorMetrics::SetLoss(double loss) { loss_.Add({}).Set(loss); }

void CoordinatorMetrics::Observe(const StepRecord& record) { figures_.Observe(record); }

void CoordinatorMetrics::CountLostWorker() { lost_workers_.Increment(); }

void CoordinatorMetrics::CountRecovery(size_t ranks) {
  recoveries_.Increment();
  recovered_ranks_.Increment(static_cast<double>(ranks));
}

void CoordinatorMetrics::CountLostTime(absl::Duration lost) {
  lost_seconds_.Increment(absl::ToDoubleSeconds(lost));
}

void CoordinatorMetrics::CountStraggler(Rank rank) { stragglers_.Add(RankLabel(rank)).Increment(); }

void CoordinatorMetrics::SetLedgerDurable(bool durable) { ledger_durable_.Add({}).Set(durable); }

void CoordinatorMetrics::ObserveLedgerSync(absl::Duration took, absl::Duration cpu) {
  ledger_cpu_.Add({}).Increment(absl::ToDoubleSeconds(cpu));
  ObserveSeconds(&ledger_fsync_.Add({}, SecondsBuckets()), took);
}

void CoordinatorMetrics::SetCheckpoint(Step step, absl::Time time, int64_t bytes,
                                       absl::Duration took) {
  checkpoint_step_.Set(static_cast<double>(step.value()));
  checkpoint_time_.Set(absl::ToDoubleSeconds(time - absl::UnixEpoch()));
  checkpoint_bytes_.Set(static_cast<double>(bytes));
  checkpoint_seconds_.Set(absl::ToDoubleSeconds(took));
}

void CoordinatorMetrics::CountCheckpoint(bool written) {
  (written ? checkpoints_written_ : checkpoints_failed_).Increment();
}

void CoordinatorMetrics::SetResumedStep(Step step) {
  resumed_step_.Set(static_cast<double>(step.value()));
}

void CoordinatorMetrics::ObserveRankLag(Rank rank, absl::Duration lag) {
  for (auto* family : {&rank_lag_, &rank_wait_}) {
    ObserveSeconds(&family->Add(RankLabel(rank), SecondsBuckets()), lag);
  }
}

}  // namespace gradwire
