#ifndef GRADWIRE_WORKER_RUN_STOPWATCH_H_
#define GRADWIRE_WORKER_RUN_STOPWATCH_H_

#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gradwire {

// Time since the last call, or since construction.
class Stopwatch {
 public:
  absl::Time last() const { return last_; }
  absl::Duration Lap() {
    const absl::Time now = absl::Now();
    return now - std::exchange(last_, now);
  }

 private:
  absl::Time last_ = absl::Now();
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_STOPWATCH_H_
