#include "common/aggregation/aggregation_clock.h"

#include <utility>

namespace gradwire {

AggregationTimes& operator+=(AggregationTimes& sum, const AggregationTimes& more) {
  sum.fold += more.fold;
  sum.receive += more.receive;
  sum.send += more.send;
  sum.wait += more.wait;
  sum.hidden_send += more.hidden_send;
  return sum;
}

AggregationClock::Activity& AggregationClock::At(absl::Time now) {
  const absl::Duration passed = now - last_;
  last_ = now;
  const bool is_busy = activity_.folds > 0 || activity_.receiving > 0;
  if (activity_.folds > 0) {
    times_.fold += passed;
  } else if (activity_.receiving > 0) {
    times_.receive += passed;
  } else if (activity_.sends > 0) {
    times_.send += passed;
  } else {
    times_.wait += passed;
  }
  if (is_busy && activity_.sends > 0) times_.hidden_send += passed;
  return activity_;
}

absl::optional<AggregationTimes> AggregationClock::EndStep(LayoutId layout, absl::Time now) {
  At(now);
  if (!pacer_.has_value()) pacer_ = layout;
  if (*pacer_ != layout) {
    if (others_.insert(layout).second) return absl::nullopt;
    pacer_ = layout;  // the previous pacer has ended
    Spoil();
  }
  others_.clear();
  const AggregationTimes times = std::exchange(times_, {});
  if (!std::exchange(counts_, true)) return absl::nullopt;
  return times;
}

}  // namespace gradwire
