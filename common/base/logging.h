#ifndef GRADWIRE_COMMON_BASE_LOGGING_H_
#define GRADWIRE_COMMON_BASE_LOGGING_H_

#include "absl/time/time.h"
#include "common/base/clock.h"

namespace gradwire {

// Sends spdlog's default logger to stderr, in color on a terminal unless NO_COLOR is set: stdout
// is only for data. gRPC's own messages are shown only at level debug, because ours say the same in
// plain words; GRPC_VERBOSITY enables them. Call once, at the start of a program.
void LogToStderr();

// Limits log lines that strangers cause to one in ten seconds. Not thread-safe.
class LogThrottle {
 public:
  // Returns whether the line may be written now; `left_out` then receives the number of skipped
  // lines.
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
