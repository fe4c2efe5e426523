#ifndef GRADWIRE_COMMON_BASE_CLOCK_H_
#define GRADWIRE_COMMON_BASE_CLOCK_H_

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gradwire {

// Now on the clock of deadlines and durations, which nobody sets and which stands while the machine
// sleeps; its zero is arbitrary. Only what people or other machines read as a time of day
// (`time` in records, traces, the events of a page) comes from absl::Now(): a test holds the
// sources to that. From any thread.
inline absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

// The time of day at `steady`, if no clock is set between then and now.
inline absl::Time ToTimeOfDay(absl::Time steady) { return absl::Now() + (steady - SteadyNow()); }

// For gRPC, which gives and takes deadlines as times of day and keeps them as steady ones.
inline std::chrono::system_clock::time_point ToGrpcDeadline(absl::Time steady) {
  return absl::ToChronoTime(ToTimeOfDay(steady));
}
inline absl::Time FromGrpcDeadline(std::chrono::system_clock::time_point deadline) {
  return SteadyNow() + (absl::FromChrono(deadline) - absl::Now());
}

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_CLOCK_H_
