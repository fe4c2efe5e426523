#ifndef GRADWIRE_COMMON_TELEMETRY_METRICS_H_
#define GRADWIRE_COMMON_TELEMETRY_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/telemetry/step_record.h"

namespace gradwire {

// What both kinds of process measure. Every metric of the project is declared in
// metrics.cc, once, with its help text. Names start with gradwire_; times are in
// seconds and sizes in bytes; labels have few values (rank, phase, sync, backend,
// direction, code), so that the number of series does not grow with the run.
//
// Each object owns a registry, which outlives it for whoever holds a pointer.
// All methods may be called from any thread at the same time and cost less than
// a microsecond, but for those that say otherwise.
class ProcessMetrics {
 public:
  ProcessMetrics(const ProcessMetrics&) = delete;
  ProcessMetrics& operator=(const ProcessMetrics&) = delete;

  // What MetricsServer serves.
  const std::shared_ptr<prometheus::Registry>& registry() const { return registry_; }

  // The view that is in force: `workers` processes.
  void SetView(int workers, Generation generation);
  // The step that is being worked on.
  void SetStep(Step step);
  // Payload of gradients and buffers, without headers.
  void CountSent(uint64_t bytes);
  void CountReceived(uint64_t bytes);
  // An RPC ended with `code`; OK is not counted. Takes a lock and may allocate.
  void CountRpcError(absl::StatusCode code);

 protected:
  ProcessMetrics();
  ~ProcessMetrics() = default;

 private:
  const std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Gauge& workers_;
  prometheus::Gauge& generation_;
  prometheus::Gauge& step_;
  prometheus::Counter& bytes_sent_;
  prometheus::Counter& bytes_received_;
  prometheus::Family<prometheus::Counter>& rpc_errors_;
};

class WorkerMetrics : public ProcessMetrics {
 public:
  // `sync` and `backend` are the names that the worker's options use.
  WorkerMetrics(absl::string_view sync, absl::string_view backend);

  // One iteration ended.
  void Observe(const StepRecord& record);
  // In `steps` more steps a gradient of this worker's was too large for the wire type.
  void CountWireOverflows(uint64_t steps);
  // A loss of others cost this time, in one of the phases of LostTime.
  void CountLostTime(absl::string_view phase, absl::Duration lost);

 private:
  prometheus::Histogram& iteration_;
  const PerPhase<prometheus::Histogram*> phases_;
  prometheus::Counter& iterations_;
  prometheus::Counter& samples_;
  prometheus::Counter& correct_;
  prometheus::Gauge& loss_;
  prometheus::Counter& wire_overflows_;
  prometheus::Counter& skipped_steps_;
  prometheus::Family<prometheus::Gauge>& lag_;
  prometheus::Family<prometheus::Gauge>& spread_;
  prometheus::Family<prometheus::Counter>& lost_time_;
  prometheus::Family<prometheus::Gauge>& ratio_;
  prometheus::Family<prometheus::Gauge>& residual_;
};

class CoordinatorMetrics : public ProcessMetrics {
 public:
  CoordinatorMetrics();

  // In some step `rank`'s contribution was complete `wait` after the first
  // rank's. Takes a lock and may allocate.
  void ObserveRankWait(Rank rank, absl::Duration wait);
  // How many workers the run needs.
  void SetMinWorkers(int workers);
  // How many steps the run has in all; 0: not known yet.
  void SetTotalSteps(uint64_t steps);
  // Mean over the ranks' losses in a step.
  void SetLoss(double loss);
  // A rank has got a model that is served. Takes a lock and may allocate.
  void SetStaleness(Rank rank, const StepRecord::Staleness& staleness);
  // A rank's gradients were compressed. Takes a lock and may allocate.
  void SetCompressed(Rank rank, const StepRecord::Compressed& compressed);
  // The run lost a worker that had its view.
  void CountLostWorker();
  // The others have gone on and carry its `ranks` (a number), with the first step that was not
  // sealed.
  void CountRecovery(size_t ranks);
  // It turned out that losses after which the run went on have cost this much more.
  void CountLostTime(absl::Duration lost);
  // Others have waited for the rank for long. Takes a lock and may allocate.
  void CountStraggler(Rank rank);

 private:
  prometheus::Gauge& min_workers_;
  prometheus::Gauge& total_steps_;
  prometheus::Gauge& loss_;
  prometheus::Counter& lost_workers_;
  prometheus::Counter& recoveries_;
  prometheus::Counter& recovered_ranks_;
  prometheus::Counter& lost_seconds_;
  prometheus::Family<prometheus::Counter>& stragglers_;
  prometheus::Family<prometheus::Histogram>& rank_wait_;
  prometheus::Family<prometheus::Gauge>& lag_;
  prometheus::Family<prometheus::Gauge>& spread_;
  prometheus::Family<prometheus::Gauge>& ratio_;
  prometheus::Family<prometheus::Gauge>& residual_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_METRICS_H_
