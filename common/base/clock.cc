#include "common/base/clock.h"

#include <chrono>
#include <thread>

namespace gradwire {

absl::Time PacedSleep::EndOf(absl::Time begin, absl::Duration duration) const {
  return begin + duration - owed_;
}

// Sleeps until a deadline: the thread may be delayed between computing a duration and sleeping.
void PacedSleep::For(absl::Duration duration) {
  const absl::Time end = EndOf(SteadyNow(), duration);
  std::this_thread::sleep_until(
      std::chrono::steady_clock::time_point(absl::ToChronoNanoseconds(end - absl::UnixEpoch())));
  Settle(end, SteadyNow());
}

}  // namespace gradwire
