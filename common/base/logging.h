#ifndef GRADWIRE_COMMON_BASE_LOGGING_H_
#define GRADWIRE_COMMON_BASE_LOGGING_H_

#include "absl/time/time.h"
#include "common/base/clock.h"

namespace gradwire {

// Sends spdlog's default logger to stderr, in colour on a terminal unless
// NO_COLOR is set, so that stdout carries nothing but data. gRPC's own messages
// are shown only at level debug, as ours say the same in plain words; setting
// GRPC_VERBOSITY brings them back. Call once, at the start of a program.
void LogToStderr();

// For lines of the log that strangers cause: at most one in ten seconds. Not thread-safe.
class LogThrottle {
 public:
  // Whether the line may be written now; if so, `left_out` gets how many were not.
  bool MayLog(int* left_out) {
    const absl::Time now = SteadyNow();
    ++waiting_;
    if (now < next_) return false;
    next_ = now + absl::Seconds(10);
    *left_out = waiting_ - 1;
    waiting_ = 0;
    return true;
  }

 private:
  absl::Time next_ = absl::InfinitePast();
  int waiting_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_LOGGING_H_
