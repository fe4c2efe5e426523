#ifndef GRADWIRE_COORDINATOR_PAGES_RUN_HISTORY_H_
#define GRADWIRE_COORDINATOR_PAGES_RUN_HISTORY_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/aggregation/aggregation_clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/telemetry/step_record.h"
#include "coordinator/pages/loss_history.h"

namespace gradwire {

// An event of interest to a person who watches the run.
struct RunEvent {
  absl::Time time;
  Step step;
  std::string kind;  // "started", "lost", "paused", "aborted" …: see toneOf in web/model.js
  std::string text;  // one sentence
};

// The last checkpoint that was written.
struct LastCheckpoint {
  Step step;            // the first that is not part of it
  absl::Time time;      // when it was complete
  int64_t bytes = 0;    // of its tensors
  absl::Duration took;  // from the workers' copies on
};

// One or more consecutive steps, over all ranks.
struct HistoryPoint {
  Step first;
  uint64_t steps = 0;
  absl::Time end;            // when the last rank had done the last step
  absl::Duration iteration;  // mean over steps and ranks
  PhaseTimes phases;         // means likewise
  absl::Duration longest;    // iteration of any rank
  // Mean of MeanLoss over the steps in which each rank's loss is finite; none: no such step.
  std::optional<double> loss;
  double samples = 0;     // per step, of all ranks; mean over steps
  double bytes_sent = 0;  // likewise

  // Returns all samples over the whole time: a long step counts for as long as it took. 0 if it
  // took no time.
  double samples_per_second() const;
};

// The latest progress of a rank.
struct RankProgress {
  StepRecord last;
  absl::Duration work;  // mean of own work over at most the last 20 steps
};

// This process's work in the counted iterations (see AggregationClock).
struct AggregationTotals {
  uint64_t iterations = 0;
  AggregationTimes times;  // sums over these
};

// The steps that the ranks of one run report, in bounded memory. It keeps at most 4096 points, each
// of as many steps as necessary (a power of two), and at most 4096 steps that not all ranks have
// done. The first loss of a rank that is not finite is an event. Thread-safe.
class RunHistory {
 public:
  // Reports of a step that all ranks have done, by rank.
  using StepOfRanks = std::vector<StepRecord>;

  // All ranks have joined. Earlier steps are dropped.
  void Begin(int world_size, absl::Time now);
  // Adds a rank's report of a step in a run of `total_steps`. If it is the last rank in this step,
  // returns all reports. A rank reports each step once, in order.
  std::optional<StepOfRanks> Add(const StepRecord& record, uint64_t total_steps, absl::Time now);
  void AddEvent(RunEvent event);
  void AddAggregation(const AggregationTimes& iteration);
  void SetCheckpoint(const LastCheckpoint& checkpoint);
  // Returns none before the first one of this start of the coordinator.
  std::optional<LastCheckpoint> checkpoint() const;
  LossHistory& losses() { return losses_; }
  const LossHistory& losses() const { return losses_; }

  // Returns the time of Begin.
  std::optional<absl::Time> started() const;
  // Returns the last 100 events, oldest first.
  std::vector<RunEvent> Events() const;
  // Returns the latest progress of `rank`; none if it has done no step.
  std::optional<RankProgress> ProgressOf(Rank rank) const;
  // Returns the rank with the longest own work. None if no rank of another worker has done steps,
  // or if its recent steps exceed those of such ranks by less than two standard errors: chance,
  // perhaps. `workers` has the address of each rank's worker; a rank without one has a worker of
  // its own.
  std::optional<Rank> Slowest(const std::map<Rank, std::string>& workers = {}) const;
  // Returns the run's number of steps, as the ranks report it; 0 if unknown.
  uint64_t total_steps() const;
  // All zero if no gradients are averaged here.
  AggregationTotals aggregation() const;
  // Returns all steps that all ranks have done, in order, in at most `most` points.
  std::vector<HistoryPoint> Points(size_t most) const;

 private:
  struct OfRank {
    StepRecord last;
    std::deque<absl::Duration> work;
    bool is_finite = true;  // all its losses were
  };

  void CheckLoss(const StepRecord& record, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Push(RunEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddPoint(HistoryPoint point) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  LossHistory losses_;
  mutable Mutex mutex_;
  size_t world_size_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Time> started_ ABSL_GUARDED_BY(mutex_);
  std::map<Rank, OfRank> ranks_ ABSL_GUARDED_BY(mutex_);
  std::map<Step, std::map<Rank, StepRecord>> under_way_ ABSL_GUARDED_BY(mutex_);
  uint64_t total_steps_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t resolution_ ABSL_GUARDED_BY(mutex_) = 1;  // steps per point
  std::vector<HistoryPoint> points_ ABSL_GUARDED_BY(mutex_);
  std::deque<RunEvent> events_ ABSL_GUARDED_BY(mutex_);
  AggregationTotals aggregation_ ABSL_GUARDED_BY(mutex_);
  std::optional<LastCheckpoint> checkpoint_ ABSL_GUARDED_BY(mutex_);
};

// Returns the mean over the ranks that report their loss in a step; none: no rank does.
std::optional<double> MeanLoss(const RunHistory::StepOfRanks& ranks);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_PAGES_RUN_HISTORY_H_
