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
#include "common/telemetry/figure_series.h"
#include "common/telemetry/step_record.h"

namespace gradwire {

// What both kinds of process measure. Every metric of the project is declared once, with its help
// text: as a member here, or, if it is a figure of each step, in a row of kStepFigures. Names start
// with gradwire_; times are in seconds and sizes in bytes; labels have few values (rank, phase,
// sync, backend, direction, code), so that the number of series does not grow with the run.
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
  using Counter = prometheus::Counter;
  using Gauge = prometheus::Gauge;
  using Histogram = prometheus::Histogram;
  template <typename T>
  using Family = prometheus::Family<T>;

  ProcessMetrics();
  ~ProcessMetrics() = default;

  // Each declares a metric. A family has one series for each set of labels.
  Family<Counter>& NewCounters(const char* name, const char* help);
  Family<Gauge>& NewGauges(const char* name, const char* help);
  Family<Histogram>& NewHistograms(const char* name, const char* help);
  Counter& NewCounter(const char* name, const char* help);
  Gauge& NewGauge(const char* name, const char* help);

 private:
  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  Gauge& workers_ = NewGauge("gradwire_workers", "Worker processes in the view.");
  Gauge& generation_ = NewGauge("gradwire_generation", "Number of the view in force.");
  Gauge& step_ = NewGauge("gradwire_step", "Step that is being worked on.");
  Family<Counter>& bytes_ =
      NewCounters("gradwire_bytes_total", "Payload of gradients and buffers, without headers.");
  Counter& bytes_sent_ = bytes_.Add({{"direction", "sent"}});
  Counter& bytes_received_ = bytes_.Add({{"direction", "received"}});
  Family<Counter>& rpc_errors_ =
      NewCounters("gradwire_rpc_errors_total", "RPCs that ended with an error.");
};

class WorkerMetrics : public ProcessMetrics {
 public:
  // `sync` and `backend` are the names that the worker's options use.
  WorkerMetrics(absl::string_view sync, absl::string_view backend);

  // One iteration ended. Takes locks.
  void Observe(const StepRecord& record);
  // In `steps` more steps a gradient of this worker's was too large for the wire type.
  void CountWireOverflows(uint64_t steps);
  // A loss of others cost this time, in one of the phases of LostTime.
  void CountLostTime(absl::string_view phase, absl::Duration lost);

 private:
  Histogram& iteration_;
  const PerPhase<Histogram*> phases_;
  Counter& iterations_ = NewCounter("gradwire_iterations_total", "Iterations that ended.");
  FigureSeries figures_{registry().get(), FigureSeries::Of::kWorker};
  Counter& wire_overflows_ =
      NewCounter("gradwire_wire_overflows_total",
                 "Steps in which a gradient of this worker was too large for the wire type.");
  Family<Counter>& lost_time_ =
      NewCounters("gradwire_recovery_seconds_total",
                  "What losses of others cost this worker: computing in vain, waiting for the next "
                  "view, connecting anew.");
};

class CoordinatorMetrics : public ProcessMetrics {
 public:
  // In some step `rank`'s contribution was complete `lag` after the first
  // rank's. Takes a lock and may allocate.
  void ObserveRankLag(Rank rank, absl::Duration lag);
  // How many workers the run needs.
  void SetMinWorkers(int workers);
  // How many steps the run has in all; 0: not known yet.
  void SetTotalSteps(uint64_t steps);
  // Mean over the ranks' losses in a step.
  void SetLoss(double loss);
  // A rank has told of a step. Takes locks and may allocate.
  void Observe(const StepRecord& record);
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
  Gauge& min_workers_ = NewGauge("gradwire_min_workers", "Worker processes that the run needs.");
  Gauge& total_steps_ =
      NewGauge("gradwire_total_steps", "Steps of the run; 0 until the first one is done.");
  Gauge& loss_ = NewGauge("gradwire_loss", "Mean over the ranks' losses in the last step.");
  Counter& lost_workers_ = NewCounter("gradwire_lost_workers_total",
                                      "Workers that the run lost while it was under way.");
  Counter& recoveries_ = NewCounter(
      "gradwire_recoveries_total", "Times that the others went on without a worker that was lost.");
  Counter& recovered_ranks_ = NewCounter("gradwire_recovered_ranks_total",
                                         "Ranks that others carry on, as their worker was lost.");
  Counter& lost_seconds_ =
      NewCounter("gradwire_lost_seconds_total",
                 "What losses cost the run: of each, the time of the worker that lost most.");
  Family<Counter>& stragglers_ =
      NewCounters("gradwire_stragglers_total",
                  "Steps in which others waited for a rank for long, and the log says so.");
  Family<Histogram>& rank_lag_ =
      NewHistograms("gradwire_rank_lag_seconds",
                    "How much later than the first rank's a rank's contribution was complete.");
  Family<Histogram>& rank_wait_ =
      NewHistograms("gradwire_rank_wait_seconds", "Deprecated name of gradwire_rank_lag_seconds.");
  FigureSeries figures_{registry().get(), FigureSeries::Of::kCoordinator};
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_METRICS_H_
