#ifndef GRADWIRE_COMMON_AGGREGATION_AGGREGATION_CLOCK_H_
#define GRADWIRE_COMMON_AGGREGATION_AGGREGATION_CLOCK_H_

#include <set>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/ids.h"

namespace gradwire {

// Where an aggregator's wall time of an iteration goes. The first four exclude each other and add
// up to the iteration, though terms of several ranks arrive, and means leave, at the same time: at
// each instant the first of these counts that applies.
struct AggregationTimes {
  absl::Duration fold;     // some thread adds up the terms of a piece
  absl::Duration receive;  // every rank has begun to send its term of a bucket; some is incomplete
  absl::Duration send;     // some mean is being written to a worker
  absl::Duration wait;     // otherwise: ranks compute, or have nothing to send
  absl::Duration hidden_send;  // means are being written beside `fold` or `receive`

  absl::Duration iteration() const { return fold + receive + send + wait; }
};
AggregationTimes& operator+=(AggregationTimes& sum, const AggregationTimes& more);

// Takes these times of one aggregator, from the end of one step to the end of the next. An
// iteration is left out if something in it belongs to no iteration of the workers: the first one of
// a view, and one with an evaluation. Not thread-safe; pure.
class AggregationClock {
 public:
  // What goes on at a time.
  struct Activity {
    int folds = 0;      // pieces being added up
    int receiving = 0;  // buckets that every rank has begun to send, and that are incomplete
    int sends = 0;      // means being written
  };

  explicit AggregationClock(absl::Time now) : last_(now) {}

  // Counts the time until `now` for what goes on so far. Returns it to be changed.
  Activity& At(absl::Time now);

  // Ends a step of a layout that all ranks contribute to. Returns the times of the iteration if
  // this is the end of one that counts. The layout whose steps come first, or alone, says how long
  // an iteration is; steps of other layouts, such as those of a second model, lie within it.
  absl::optional<AggregationTimes> EndStep(LayoutId layout, absl::Time now);

  // Leaves the present iteration out.
  void Spoil() { counts_ = false; }

 private:
  Activity activity_;
  AggregationTimes times_;  // of the present iteration
  absl::Time last_;
  bool counts_ = false;
  absl::optional<LayoutId> pacer_;  // whose steps end iterations
  std::set<LayoutId> others_;       // that ended a step since the pacer did
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_AGGREGATION_AGGREGATION_CLOCK_H_
