#include "common/serving/stale_clocks.h"

#include <algorithm>

namespace gradwire {

StalenessBound BoundOf(const v1::Serving& serving) {
  StalenessBound bound;
  if (serving.has_staleness()) bound.staleness = serving.staleness();
  bound.steps = serving.steps();
  bound.meet_every = serving.meet_every();
  return bound;
}

uint64_t StaleClocks::slowest() const { return *std::min_element(clocks_.begin(), clocks_.end()); }
uint64_t StaleClocks::fastest() const { return *std::max_element(clocks_.begin(), clocks_.end()); }

uint64_t StaleClocks::Needed(uint64_t step) const {
  const bool meet = bound_.meet_every > 0 && step % bound_.meet_every == 0;
  if (meet || step == bound_.steps) return step;
  if (!bound_.staleness.has_value() || *bound_.staleness >= step) return 0;
  return step - *bound_.staleness;
}

}  // namespace gradwire
