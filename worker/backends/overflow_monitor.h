#ifndef GRADWIRE_WORKER_BACKENDS_OVERFLOW_MONITOR_H_
#define GRADWIRE_WORKER_BACKENDS_OVERFLOW_MONITOR_H_

#include <cstdint>
#include <string>

#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "gradwire/v1/chunk.pb.h"

namespace gradwire {

// Says when a gradient was too large for the wire type. Warns of the first step
// in which that happens and then at the 2nd, 4th, 8th … such step, so that a run
// that diverges does not fill the log. Thread-safe.
class OverflowMonitor {
 public:
  explicit OverflowMonitor(v1::DType wire) : wire_(wire) {}

  // A finite value became infinite when `rank` rounded it for the wire in `step`.
  // Steps come in order; further calls for the same step change nothing.
  void Note(Step step, Rank rank);

  // Steps noted so far.
  uint64_t steps() const;

 private:
  const v1::DType wire_;
  mutable Mutex mutex_;
  absl::optional<Step> last_ ABSL_GUARDED_BY(mutex_);
  uint64_t steps_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The warning: what happened, what follows from it, and what to do.
std::string OverflowMessage(v1::DType wire, Step step, Rank rank, uint64_t steps);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_OVERFLOW_MONITOR_H_
