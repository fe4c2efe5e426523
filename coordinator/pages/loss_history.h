#ifndef GRADWIRE_COORDINATOR_PAGES_LOSS_HISTORY_H_
#define GRADWIRE_COORDINATOR_PAGES_LOSS_HISTORY_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/telemetry/phases.h"
#include "common/wire/view.h"

namespace gradwire {

// How a run continued after a loss.
struct Continuation {
  Generation generation;  // of the new view
  Step first_step;        // of the new view
  std::vector<Adoption> adoptions;
  // Largest loss of time that a worker has reported so far; none if no worker has reported, or if
  // all went straight to a later view and reported that one.
  std::optional<LostTime> cost;
};

// A worker that was lost during the run.
struct LostWorker {
  absl::Time time;
  Step step;  // the first that not all of its ranks had done
  std::vector<Rank> ranks;
  std::string cause;
  std::string address;                    // "host:port"
  uint32_t pid = 0;                       // process id there; 0: unknown
  std::optional<Continuation> continued;  // none: the run ended
};

// A run's losses, in bounded memory: the last 100, and totals of all. Thread-safe.
class LossHistory {
 public:
  struct Totals {
    uint64_t losses = 0;
    uint64_t recovered_ranks = 0;  // that others have carried on
    LostTime lost;                 // in losses after which the run continued
  };

  void Add(LostWorker loss);
  // The run continues after the last loss.
  void GoOn(Continuation continuation);
  // A worker reports its cost of continuing with the view of this generation. Returns the increase
  // of the total: zero unless a loss led to that view and no worker reported a larger cost.
  absl::Duration AddCost(Generation generation, const LostTime& cost);

  // Returns the losses, oldest first.
  std::vector<LostWorker> Losses() const;
  Totals totals() const;

 private:
  mutable Mutex mutex_;
  std::deque<LostWorker> losses_ ABSL_GUARDED_BY(mutex_);
  Totals totals_ ABSL_GUARDED_BY(mutex_);
};

// Returns text for people: "rank 2 is carried on with rank 0 at 10.10.1.1:4711", one such part for
// each worker that adopted ranks, separated by "; ".
std::string Describe(const std::vector<Adoption>& adoptions);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_PAGES_LOSS_HISTORY_H_
