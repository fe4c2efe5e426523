#ifndef GRADWIRE_COMMON_BASE_STOPWATCH_H_
#define GRADWIRE_COMMON_BASE_STOPWATCH_H_

#include <utility>

#include "absl/time/time.h"
#include "common/base/clock.h"

namespace gradwire {

// Time since the last call, or since construction.
class Stopwatch {
 public:
  absl::Time last() const { return last_; }
  absl::Duration Lap() {
    const absl::Time now = SteadyNow();
    return now - std::exchange(last_, now);
  }

 private:
  absl::Time last_ = SteadyNow();
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_STOPWATCH_H_
