#ifndef GRADWIRE_WORKER_RUN_STEP_REPORTER_H_
#define GRADWIRE_WORKER_RUN_STEP_REPORTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/output_file.h"
#include "common/telemetry/figure_series.h"
#include "common/telemetry/metrics.h"
#include "gradwire/v1/membership.pb.h"
#include "gradwire/v1/status.pb.h"
#include "worker/backends/exchange.h"
#include "worker/options/worker_options.h"
#include "worker/report/epochs.h"
#include "worker/report/progress.h"
#include "worker/report/step_log.h"
#include "worker/report/summary.h"
#include "worker/run/evaluator.h"
#include "worker/run/trainer.h"

namespace gradwire {

// The worker's current phase, for the heartbeats. Thread-safe.
class CurrentWork {
 public:
  // From `now` on the worker is in `phase` (a literal) of `step`. `waits`: it waits for other
  // workers, for `bucket` if that is known.
  void Begin(const char* phase, Step step, bool waits, absl::optional<Bucket> bucket,
             absl::Time now);
  // Sets the generation of the view in which later phases begin; 0 at first.
  void SetGeneration(Generation generation);
  // Returns nothing before the first Begin.
  absl::optional<v1::Work> At(absl::Time now) const;

 private:
  mutable Mutex mutex_;
  absl::optional<v1::Work> work_ ABSL_GUARDED_BY(mutex_);
  absl::Time since_ ABSL_GUARDED_BY(mutex_);
  Generation generation_ ABSL_GUARDED_BY(mutex_);
};

// Reports each step: progress, metrics, and for each carried rank a log, a summary and a status.
// The process's total bytes are divided among its ranks. Only Summaries and Status are thread-safe.
class StepReporter {
 public:
  struct Run {
    std::vector<Rank> ranks;  // of this worker
    int world_size = 1;
    int64_t total_steps = 0;
    int64_t steps_per_epoch = 0;
    Step first_step = Step(0);                      // above 0: the run was resumed
    std::vector<std::vector<Rank>> in_memory = {};  // see GroupsInMemory
  };

  // Opens the logs. `options.backend` is the one in force, which `metrics` name from now on. They
  // must outlive this object. Returns InvalidArgument if a log cannot be
  // written or the environment's GRADWIRE_PROGRESS is wrong.
  static absl::StatusOr<std::unique_ptr<StepReporter>> Create(const WorkerOptions& options,
                                                              const Run& run,
                                                              WorkerMetrics* metrics);

  // After a loss, the worker carries these ranks from now on. For ranks that others carried before,
  // reports begin here, and a log that this run wrote here is continued. Sets `adopted`.
  void GoOn(Recovery recovery);

  // Reports a step; `records` has one for each rank, `totals` counts up to now. Returns what to
  // tell the coordinator about each rank. If a log cannot be written, warns and stops writing it:
  // the run does not end for that.
  std::vector<v1::StepDone> OnStep(std::vector<StepRecord> records, const TransferTotals& totals);
  // Makes way for other log lines.
  void Pause() { progress_.Pause(); }
  // Reports an evaluation after the last step, for each rank.
  void OnEvaluation(absl::Span<const Evaluation> evaluations);
  // Ends the report, however training ended. Returns Internal if a log was given up.
  absl::Status Finish();

  // Returns the summary of carried rank `index`, without hashes.
  Summary SummaryOf(size_t index) const;
  // Returns the summaries of all carried ranks, in order. From any thread.
  std::vector<Summary> Summaries() const;
  // Returns the status of each rank, without addresses. From any thread.
  std::vector<v1::RankStatus> Status() const;

 private:
  struct OfRank {
    SummaryCollector collector;
    EpochCollector epochs;
    std::unique_ptr<StepLog> log;  // null without --log-jsonl, and once it was given up
  };
  StepReporter(const WorkerOptions& options, const Run& run, const ProgressOptions& progress,
               WorkerMetrics* metrics);
  absl::Status OpenLog(Rank rank, bool goes_on, OfRank* of_rank) const;
  void NoteEarlierLogs();
  // Whether the file of an adopted rank's log is still the one of a run before this one.
  bool IsOfEarlierRun(Rank rank) const;
  // Sets what was sent and received since the last step, how it was compressed, and how far apart
  // the ranks are.
  void Count(const TransferTotals& totals, std::vector<StepRecord>* records);
  void Measure(absl::Span<const StepRecord> records);
  void AddStep(size_t index, const StepRecord& record);
  // Returns the index of the first rank whose log can be written; 0 if there is none.
  size_t FirstWithLog() const;
  // Returns the ranks that it did not carry before.
  std::vector<Rank> SetRanks(const std::vector<Rank>& ranks);
  void OnEpoch(size_t index, const absl::optional<EpochRow>& row);
  // Unless it is OK.
  void GiveUpLog(const absl::Status& failure, OfRank* of_rank);
  void WriteLog(size_t index, const std::string& line);
  v1::StepDone Done(const StepRecord& record) const;
  void ShowStatus(size_t index, const v1::StepDone& done);

  const WorkerOptions options_;
  Run run_;
  Summary::Failures failures_;  // of this worker
  WorkerMetrics* const metrics_;
  ProgressReporter progress_;
  // Index of the rank whose progress is printed: the first with which this worker began. An adopted
  // rank has only a part of its epoch here.
  size_t shown_ = 0;
  std::vector<OfRank> ranks_;
  // Marks of each rank's log before this run wrote a row; empty if a resumed run continues the
  // logs.
  std::vector<absl::optional<FileMark>> earlier_logs_;
  absl::Status log_failure_;
  TransferTotals counted_;  // up to the last step
  CompressionMeter compression_;

  mutable Mutex records_mutex_;  // held while what Summaries() gives is changed
  mutable Mutex mutex_;
  std::vector<v1::RankStatus> statuses_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_STEP_REPORTER_H_
