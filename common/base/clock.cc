#include "common/base/clock.h"

#include <chrono>
#include <thread>

namespace gradwire {

absl::Time PacedSleep::EndOf(absl::Time begin, absl::Duration duration) const {
  return begin + duration - owed_;
}

// By a deadline: between a duration's computation and its sleep this thread may have to wait.
void PacedSleep::For(absl::Duration duration) {
  const absl::Time end = EndOf(SteadyNow(), duration);
  std::this_thread::sleep_until(
      std::chrono::steady_clock::time_point(absl::ToChronoNanoseconds(end - absl::UnixEpoch())));
  Settle(end, SteadyNow());
}

}  // namespace gradwire
