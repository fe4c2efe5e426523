#ifndef GRADWIRE_COMMON_BASE_CLOCK_H_
#define GRADWIRE_COMMON_BASE_CLOCK_H_

#include <chrono>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gradwire {

// Returns the time on the clock for deadlines and durations, which is never set and stands still
// while the machine sleeps; its zero is arbitrary. Only times of day for people or other machines
// (`time` in records, traces, events of a page) come from absl::Now(); a test checks the sources
// for that. From any thread.
inline absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

// Returns the time of day at `steady`, if no clock is set between then and now.
inline absl::Time ToTimeOfDay(absl::Time steady) { return absl::Now() + (steady - SteadyNow()); }

// For gRPC, whose interface takes deadlines as times of day but keeps them as steady times.
inline std::chrono::system_clock::time_point ToGrpcDeadline(absl::Time steady) {
  return absl::ToChronoTime(ToTimeOfDay(steady));
}
inline absl::Time FromGrpcDeadline(std::chrono::system_clock::time_point deadline) {
  return SteadyNow() + (absl::FromChrono(deadline) - absl::Now());
}

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

// The format of times in messages and JSON.
inline double UnixSeconds(absl::Time time) {
  return absl::ToDoubleSeconds(time - absl::UnixEpoch());
}

// Sleeps that emulate work, repeatedly. If a sleep is too long, because the machine was busy or the
// timer coarse, later sleeps are shorter by that time, so the total is right. Time between two
// sleeps does not count. Not thread-safe.
class PacedSleep {
 public:
  // Sleeps for `duration` minus the excess of earlier sleeps; returns at once if the excess is
  // larger.
  void For(absl::Duration duration);

  // The computation alone: returns the end of a sleep that starts at `begin`, and the excess that
  // remains if it ends at `woken`.
  absl::Time EndOf(absl::Time begin, absl::Duration duration) const;
  void Settle(absl::Time end, absl::Time woken) { owed_ = woken - end; }
  absl::Duration owed() const { return owed_; }

 private:
  absl::Duration owed_ = absl::ZeroDuration();
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_CLOCK_H_
