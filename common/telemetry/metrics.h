#ifndef GRADWIRE_COMMON_TELEMETRY_METRICS_H_
#define GRADWIRE_COMMON_TELEMETRY_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/telemetry/figure_series.h"
#include "common/telemetry/step_record.h"

namespace gradwire {

// Metrics of both kinds of process. Every metric of the project is declared once, with its help
// text: as a member here or, for a figure of each step, in a row of kStepFigures. Names start with
// gradwire_; times are in seconds and sizes in bytes; labels have few values (rank, phase, sync,
// backend, direction, code), so that the number of series does not grow with the run.
//
// Each object owns a registry, which stays alive while any pointer to it exists. All methods may be
// called from any thread at the same time and cost less than a microsecond, except where noted.
class ProcessMetrics {
 public:
  ProcessMetrics(const ProcessMetrics&) = delete;
  ProcessMetrics& operator=(const ProcessMetrics&) = delete;

  // The registry that MetricsServer serves.
  const std::shared_ptr<prometheus::Registry>& registry() const { return registry_; }

  // Sets the current view: `workers` processes.
  void SetView(int workers, Generation generation);
  // Sets the step in progress.
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

  // Each declares a metric. A family has one series per set of labels.
  Family<Counter>& NewCounters(const char* name, const char* help);
  Family<Gauge>& NewGauges(const char* name, const char* help);
  Family<Histogram>& NewHistograms(const char* name, const char* help);
  Counter& NewCounter(const char* name, const char* help);
  Gauge& NewGauge(const char* name, const char* help);

 private:
  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  Gauge& workers_ = NewGauge("gradwire_workers", "Worker processes in the view.");
  Gauge& generation_ = NewGauge("gradwire_generation", "Number of the view in force.");
  Gauge& step_ = NewGauge("gradwire_step", "Step in progress.");
  Family<Counter>& bytes_ =
      NewCounters("gradwire_bytes_total", "Payload of gradients and buffers, without headers.");
  Counter& bytes_sent_ = bytes_.Add({{"direction", "sent"}});
  Counter& bytes_received_ = bytes_.Add({{"direction", "received"}});
  Family<Counter>& rpc_errors_ =
      NewCounters("gradwire_rpc_errors_total", "RPCs that ended with an error.");
};

class WorkerMetrics : public ProcessMetrics {
 public:
  // `sync` and `backend` are the names in the worker's options.
  WorkerMetrics(absl::string_view sync, absl::string_view backend);

  // Names the back end in force, once the view is known. Call it before the first Observe, by the
  // same thread.
  void SetBackend(absl::string_view backend);
  // The run begins with step `first`; the one before it is the last step done.
  void SetFirstStep(Step first);
  // One iteration ended. Takes locks.
  void Observe(const StepRecord& record);
  // In `steps` more steps a gradient of this worker, or a sum that it made, was too large for the
  // wire type.
  void CountWireOverflows(uint64_t steps);
  // A loss of another worker cost this time, in one of the phases of LostTime.
  void CountLostTime(absl::string_view phase, absl::Duration lost);

 private:
  const std::string sync_;
  Family<Histogram>& iteration_seconds_ =
      NewHistograms("gradwire_iteration_seconds", "Wall time of an iteration.");
  Histogram* iteration_;
  const PerPhase<Histogram*> phases_;
  Counter& iterations_ = NewCounter("gradwire_iterations_total", "Iterations that ended.");
  FigureSeries figures_{registry().get(), FigureSeries::Of::kWorker};
  Counter& wire_overflows_ = NewCounter(
      "gradwire_wire_overflows_total",
      "Steps in which a gradient of this worker, or a sum of gradients that it made, was "
      "too large for the wire type.");
  Family<Counter>& lost_time_ = NewCounters(
      "gradwire_recovery_seconds_total",
      "Time that losses of others cost this worker: computing in vain, waiting for the next "
      "view, connecting again.");
};

class CoordinatorMetrics : public ProcessMetrics {
 public:
  // In a step, `rank`'s contribution was complete `lag` after the first rank's. Takes a lock and
  // may allocate.
  void ObserveRankLag(Rank rank, absl::Duration lag);
  // Sets the number of workers that the run needs.
  void SetMinWorkers(int workers);
  // Sets the run's number of steps; 0: not known yet.
  void SetTotalSteps(uint64_t steps);
  // Sets the mean of the ranks' losses in a step. Without this call there is no such series.
  void SetLoss(double loss);
  // A rank has reported a step. Takes locks and may allocate.
  void Observe(const StepRecord& record);
  // The run lost a worker that had its view.
  void CountLostWorker();
  // The others continue with its `ranks` (a number) from the first step that was not sealed.
  void CountRecovery(size_t ranks);
  // Losses after which the run continued cost this much more time.
  void CountLostTime(absl::Duration lost);
  // Others have waited long for the rank. Takes a lock and may allocate.
  void CountStraggler(Rank rank);
  // Whether the ledger records the run's steps. Without this call there is no such series.
  void SetLedgerDurable(bool durable);
  // The ledger has synced a group of records: the wall time, and the CPU time of its thread since
  // the last one. Takes locks.
  void ObserveLedgerSync(absl::Duration took, absl::Duration cpu);
  // The last checkpoint that was written: the first step that is not part of it, when that was, its
  // size, and how long it took.
  void SetCheckpoint(Step step, absl::Time time, int64_t bytes, absl::Duration took);
  // A checkpoint was written, or not.
  void CountCheckpoint(bool written);
  // The run continues a checkpoint with this step.
  void SetResumedStep(Step step);

 private:
  Gauge& min_workers_ = NewGauge("gradwire_min_workers", "Worker processes that the run needs.");
  Gauge& total_steps_ =
      NewGauge("gradwire_total_steps", "Steps of the run; 0 while they are not known.");
  Family<Gauge>& loss_ =
      NewGauges("gradwire_loss", "Mean over the ranks' losses in the last step.");
  Counter& lost_workers_ = NewCounter("gradwire_lost_workers_total",
                                      "Workers that the run lost while it was under way.");
  Counter& recoveries_ = NewCounter("gradwire_recoveries_total",
                                    "Times that the others continued without a lost worker.");
  Counter& recovered_ranks_ =
      NewCounter("gradwire_recovered_ranks_total",
                 "Ranks that others carry on because their worker was lost.");
  Counter& lost_seconds_ =
      NewCounter("gradwire_lost_seconds_total",
                 "Time that losses cost the run: for each, the time of the worker that lost most.");
  Family<Counter>& stragglers_ =
      NewCounters("gradwire_stragglers_total",
                  "Steps in which others waited long for a rank; the log has a line for each.");
  Family<Histogram>& rank_lag_ =
      NewHistograms("gradwire_rank_lag_seconds",
                    "Time from the first rank's complete contribution to this rank's.");
  Family<Histogram>& rank_wait_ =
      NewHistograms("gradwire_rank_wait_seconds", "Deprecated name of gradwire_rank_lag_seconds.");
  Family<Gauge>& ledger_durable_ = NewGauges(
      "gradwire_ledger_durable",
      "1: the run's steps are recorded in its run directory; 0: not any more, see the log.");
  Family<Histogram>& ledger_fsync_ = NewHistograms(
      "gradwire_ledger_fsync_seconds", "Time to write and sync a group of records of the ledger.");
  Family<Counter>& ledger_cpu_ = NewCounters("gradwire_ledger_cpu_seconds_total",
                                             "CPU time of the thread that writes the ledger.");
  Gauge& checkpoint_step_ =
      NewGauge("gradwire_checkpoint_step", "Steps in the last checkpoint; 0: there is none.");
  Gauge& checkpoint_time_ = NewGauge("gradwire_checkpoint_timestamp_seconds",
                                     "When the last checkpoint was written, in Unix seconds.");
  Gauge& checkpoint_bytes_ =
      NewGauge("gradwire_checkpoint_bytes", "Size of the tensors in the last checkpoint.");
  Gauge& checkpoint_seconds_ =
      NewGauge("gradwire_checkpoint_seconds",
               "Time from the workers' copies to the published folder of the last checkpoint.");
  Family<Counter>& checkpoints_ =
      NewCounters("gradwire_checkpoints_total", "Checkpoints that were written, or failed.");
  Counter& checkpoints_written_ = checkpoints_.Add({{"result", "written"}});
  Counter& checkpoints_failed_ = checkpoints_.Add({{"result", "failed"}});
  Gauge& resumed_step_ = NewGauge("gradwire_resumed_step",
                                  "Steps in the checkpoint that this run continues; 0: none.");
  FigureSeries figures_{registry().get(), FigureSeries::Of::kCoordinator};
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_METRICS_H_
