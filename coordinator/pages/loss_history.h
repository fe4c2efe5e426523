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

// How a run went on after a loss.
struct Continuation {
  Generation generation;  // of the view
  Step first_step;        // that it begins with
  std::vector<Adoption> adoptions;
  // Of the worker that lost most time, of those that have told so far; none: none has, or all went
  // straight on to a later view and told of that one.
  std::optional<LostTime> cost;
};

// A worker that a run lost while it was under way.
struct LostWorker {
  absl::Time time;
  Step step;  // the first that not all of its ranks had done
  std::vector<Rank> ranks;
  std::string cause;
  std::string address;                    // "host:port"
  uint32_t pid = 0;                       // process id there; 0: unknown
  std::optional<Continuation> continued;  // none: the run has ended
};

// A run's losses, in bounded memory: the last 100, and the sums of all. Thread-safe.
class LossHistory {
 public:
  struct Totals {
    uint64_t losses = 0;
    uint64_t recovered_ranks = 0;  // that others have carried on
    LostTime lost;                 // of losses after which the run went on
  };

  void Add(LostWorker loss);
  // The run goes on after the last loss.
  void GoOn(Continuation continuation);
  // A worker tells what it cost it to go on with the view of this generation. Returns by how much
  // the total of all losses has grown: zero unless a loss led to that view and no worker told of
  // more.
  absl::Duration AddCost(Generation generation, const LostTime& cost);

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
