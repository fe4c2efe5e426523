#ifndef GRADWIRE_COMMON_SERVING_STALE_CLOCKS_H_
#define GRADWIRE_COMMON_SERVING_STALE_CLOCKS_H_

#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// How far ranks may be apart, and when they meet.
struct StalenessBound {
  absl::optional<uint64_t> staleness;  // S; none: any number of steps
  uint64_t steps = 0;                  // of the run, after which all meet
  uint64_t meet_every = 0;             // steps; 0: they meet at the end alone
};

StalenessBound BoundOf(const v1::Serving& serving);

// The clocks of ranks that train one model without waiting for all: Ho et al., "More effective
// distributed ML via a stale synchronous parallel parameter server", NIPS 2013. A rank's clock is
// the number of steps whose gradients it has pushed. It may begin step c, counted from 0, when no
// rank's clock is below c - S:
//
//   S = 2   rank 0  ├─0─┼─1─┼─2─┼┄┄┄┄┄┄┄┄┄┄┄┄┼─3─┤     step 3 needs clocks of 1 or more
//           rank 1  ├────────0───────┼┄pushed┄┼────1 …
//
// So at any time a rank computes at most S steps ahead of the slowest one, and clocks are at most
// S + 1 apart; with S = 0 all are in one step. The slowest rank never waits. A step at which ranks
// meet, and the end of the run, need all clocks to be there. Pure; not thread-safe.
class StaleClocks {
 public:
  StaleClocks(int ranks, const StalenessBound& bound) : bound_(bound), clocks_(ranks) {}

  // `rank` has pushed the gradients of one more step.
  void Advance(Rank rank) { ++clocks_[rank.value()]; }

  uint64_t clock(Rank rank) const { return clocks_[rank.value()]; }
  uint64_t slowest() const;
  uint64_t fastest() const;

  // What all clocks must have reached before any rank begins `step`; the number of steps of the run
  // stands for its end.
  uint64_t Needed(uint64_t step) const;
  bool MayBegin(uint64_t step) const { return slowest() >= Needed(step); }

 private:
  const StalenessBound bound_;
  std::vector<uint64_t> clocks_;  // by rank
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_SERVING_STALE_CLOCKS_H_
