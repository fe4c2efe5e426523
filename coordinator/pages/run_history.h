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

// Something that a person who watches the run wants to know of.
struct RunEvent {
  absl::Time time;
  Step step;
  std::string kind;  // "started", "lost", "paused", "aborted" …: see toneOf in web/model.js
  std::string text;  // one sentence
};

// One or more steps in a row, over all ranks.
struct HistoryPoint {
  Step first;
  uint64_t steps = 0;
  absl::Time end;            // when the last rank had done the last of them
  absl::Duration iteration;  // mean over steps and ranks
  PhaseTimes phases;         // likewise
  absl::Duration longest;    // iteration of any rank
  // Mean over all ranks, of the steps in which each one's is finite; none: no such.
  std::optional<double> loss;
  double samples_per_second = 0;  // all ranks, from their mean iteration time
  double bytes_sent = 0;          // of a step, all ranks; mean over steps
};

// What a rank did last.
struct RankProgress {
  StepRecord last;
  absl::Duration work;  // own work; mean over at most the last 20 steps
};

// What this process did in the iterations that count (see AggregationClock).
struct AggregationTotals {
  uint64_t iterations = 0;
  AggregationTimes times;  // sums over these
};

// What the ranks of one run told of their steps, in bounded memory: however long
// the run, at most 4096 points are kept, each of as many steps as that takes (a
// power of two), and at most 4096 steps that not all ranks have done. The first loss of a rank
// that is not finite is an event. Thread-safe.
class RunHistory {
 public:
  // Of a step that all ranks have done: what each told, by rank.
  using StepOfRanks = std::vector<StepRecord>;

  // All ranks are there. Steps that came before are forgotten.
  void Begin(int world_size, absl::Time now);
  // A rank has done a step of a run of `total_steps`. When it is the last one to do so,
  // returns what all told. A rank tells of each step once, in order.
  std::optional<StepOfRanks> Add(const StepRecord& record, uint64_t total_steps, absl::Time now);
  void AddEvent(RunEvent event);
  void AddAggregation(const AggregationTimes& iteration);
  LossHistory& losses() { return losses_; }
  const LossHistory& losses() const { return losses_; }

  // Since when the ranks have been there.
  std::optional<absl::Time> started() const;
  // The last 100, oldest first.
  std::vector<RunEvent> Events() const;
  // What `rank` did last; none if it has done no step.
  std::optional<RankProgress> ProgressOf(Rank rank) const;
  // The rank with the longest own work; none of less than two ranks with steps.
  std::optional<Rank> Slowest() const;
  // Steps of the run, as the ranks say; 0 if it is not known.
  uint64_t total_steps() const;
  // All zero if no gradients are averaged here.
  AggregationTotals aggregation() const;
  // All steps that all ranks have done, in order, in at most `most` points.
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
  uint64_t resolution_ ABSL_GUARDED_BY(mutex_) = 1;  // steps a point
  std::vector<HistoryPoint> points_ ABSL_GUARDED_BY(mutex_);
  std::deque<RunEvent> events_ ABSL_GUARDED_BY(mutex_);
  AggregationTotals aggregation_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_PAGES_RUN_HISTORY_H_
