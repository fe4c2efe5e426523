#ifndef GRADWIRE_COMMON_AGGREGATION_AGGREGATION_CLOCK_H_
#define GRADWIRE_COMMON_AGGREGATION_AGGREGATION_CLOCK_H_

#include <set>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/ids.h"

namespace gradwire {

// Parts of an aggregator's wall time of an iteration. The first four exclude each other and add up
// to the iteration, even if terms arrive and means leave at the same time: each instant counts for
// the first part that applies.
struct AggregationTimes {
  absl::Duration fold;  // a thread sums the terms of a piece
  absl::Duration
      receive;  // every rank has begun to send its term of a bucket; some terms are incomplete
  absl::Duration send;         // a mean is being written to a worker
  absl::Duration wait;         // otherwise: ranks compute, or have nothing to send
  absl::Duration hidden_send;  // means are being written during `fold` or `receive`

  absl::Duration iteration() const { return fold + receive + send + wait; }
};
AggregationTimes& operator+=(AggregationTimes& sum, const AggregationTimes& more);

// Measures these times for one aggregator, from the end of one step to the end of the next. Leaves
// out iterations that workers do not count: the first one of a view, and one with an evaluation.
// Not thread-safe; pure.
class AggregationClock {
 public:
  // The current activities.
  struct Activity {
    int folds = 0;      // pieces being summed
    int receiving = 0;  // buckets that every rank has begun to send, and that are incomplete
    int sends = 0;      // means being written
  };

  explicit AggregationClock(absl::Time now) : last_(now) {}

  // Counts the time until `now` for the current activities. Returns them, so that the caller can
  // change them.
  Activity& At(absl::Time now);

  // Ends a step of a layout to which all ranks contribute. Returns the times of the iteration if
  // this is the end of a counted one. The layout whose steps come first, or the only one, defines
  // the iteration; steps of other layouts, such as those of a second model, lie within it.
  absl::optional<AggregationTimes> EndStep(LayoutId layout, absl::Time now);

  // Leaves out the current iteration.
  void Spoil() { counts_ = false; }

 private:
  Activity activity_;
  AggregationTimes times_;  // of the current iteration
  absl::Time last_;
  bool counts_ = false;
  absl::optional<LayoutId> pacer_;  // layout whose steps end iterations
  std::set<LayoutId> others_;       // layouts that ended a step since the pacer did
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_AGGREGATION_AGGREGATION_CLOCK_H_
