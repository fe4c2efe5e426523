#ifndef GRADWIRE_WORKER_RUN_STEP_REPORTER_H_
#define GRADWIRE_WORKER_RUN_STEP_REPORTER_H_

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

// What a worker is at, for the heartbeats. Thread-safe.
class CurrentWork {
 public:
  // From `now` on it is in `phase` of `step`, a literal. `waits`: for others' part of it, of
  // `bucket` if that is known.
  void Begin(const char* phase, Step step, bool waits, absl::optional<Bucket> bucket,
             absl::Time now);
  // From now on phases begin in the view of this generation, first 0.
  void SetGeneration(Generation generation);
  // None before the first Begin.
  absl::optional<v1::Work> At(absl::Time now) const;

 private:
  mutable Mutex mutex_;
  absl::optional<v1::Work> work_ ABSL_GUARDED_BY(mutex_);
  absl::Time since_ ABSL_GUARDED_BY(mutex_);
  Generation generation_ ABSL_GUARDED_BY(mutex_);
};

// Tells of each step: progress, metrics, and for each rank that the worker carries a log, a
// summary and a status. What the process as a whole sent and received counts at its first
// rank. Not thread-safe but for Status.
class StepReporter {
 public:
  struct Run {
    std::vector<Rank> ranks;  // of this worker
    int world_size = 1;
    int64_t total_steps = 0;
    int64_t steps_per_epoch = 0;
  };

  // Opens the logs. `metrics` outlives this object. Errors: InvalidArgument if a log cannot
  // be written or the environment's GRADWIRE_PROGRESS is wrong.
  static absl::StatusOr<std::unique_ptr<StepReporter>> Create(const WorkerOptions& options,
                                                              const Run& run,
                                                              WorkerMetrics* metrics);

  // Others were lost, and the worker carries these ranks from now on, some of which others carried
  // before: of those it knows, and its logs tell, what comes from here on. `adopted` is set here.
  void GoOn(Recovery recovery);

  // A step is done; `records` has one for each rank, `totals` is up to now. Returns what the
  // coordinator is to be told, for each rank. A log that cannot be written is warned of and
  // given up: the others' run does not end for it.
  std::vector<v1::StepDone> OnStep(std::vector<StepRecord> records, const TransferTotals& totals);
  // Log lines of others come now.
  void Pause() { progress_.Pause(); }
  // An evaluation after the last step, of each rank.
  void OnEvaluation(absl::Span<const Evaluation> evaluations);
  // Training is over, however it ended. Internal if a log was given up.
  absl::Status Finish();

  // What is known of carried rank number `index`: all but hashes.
  Summary SummaryOf(size_t index) const;
  // Of all carried ranks, in their order. From any thread.
  std::vector<Summary> Summaries() const;
  // Of each rank; without addresses. From any thread.
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
  // Sets what was sent and received since the last step, how it was compressed, and how far apart
  // the ranks are.
  void Count(const TransferTotals& totals, std::vector<StepRecord>* records);
  void Measure(absl::Span<const StepRecord> records);
  void AddStep(size_t index, const StepRecord& record);
  // Those that it did not carry before.
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
  std::vector<OfRank> ranks_;
  absl::Status log_failure_;
  TransferTotals counted_;  // up to the last step
  CompressionMeter compression_;

  mutable Mutex records_mutex_;  // held while what Summaries() gives is changed
  mutable Mutex mutex_;
  std::vector<v1::RankStatus> statuses_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_STEP_REPORTER_H_
