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
#include "common/wire/view.h"
#include "common/wire/view_change.h"

namespace gradwire {

// How a run went on after a loss.
struct Continuation {
  Generation generation;  // of the view
  Step first_step;        // that it begins with
  std::vector<Adoption> adoptions;
};

// A worker that a run lost while it was under way.
struct LostWorker {
  absl::Time time;
  Step step;  // the first that not all of its ranks had done
  std::vector<Rank> ranks;
  std::string cause;
  absl::Duration lost;  // for so long no step had been completed; it is spent again
  std::optional<Continuation> continued;  // none: the run has ended
};

// A run's losses, in bounded memory: the last 100, and the sums of all. Thread-safe.
class LossHistory {
 public:
  struct Totals {
    uint64_t losses = 0;
    uint64_t recovered_ranks = 0;  // that others have carried on
    absl::Duration lost;           // of losses after which the run went on
  };

  void Add(LostWorker loss);
  // The run goes on after the last loss.
  void GoOn(Continuation continuation);

  // Oldest first.
  std::vector<LostWorker> Losses() const;
  Totals totals() const;

 private:
  mutable Mutex mutex_;
  std::deque<LostWorker> losses_ ABSL_GUARDED_BY(mutex_);
  Totals totals_ ABSL_GUARDED_BY(mutex_);
};

// For people: "rank 2 is carried on with rank 0 at 10.10.1.1:4711", and so for each that adopted
// some, "; " between them.
std::string Describe(const std::vector<Adoption>& adoptions);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_PAGES_LOSS_HISTORY_H_
