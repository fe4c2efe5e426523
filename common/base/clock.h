#ifndef GRADWIRE_COMMON_BASE_CLOCK_H_
#define GRADWIRE_COMMON_BASE_CLOCK_H_

#include <chrono>
#include <utility>

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

// As messages and JSON give times.
inline double UnixSeconds(absl::Time time) {
  return absl::ToDoubleSeconds(time - absl::UnixEpoch());
}

// Sleeps in place of work, again and again. Who sleeps too long, because the machine was busy or
// the timer coarse, sleeps so much less the next times: in all, sleeps take what was asked for and
// what is still owed. What lies between two sleeps is nobody's debt. Not thread-safe.
class PacedSleep {
 public:
  // Until `duration` has passed, less what sleeps before this one took too long; not at all if
  // they took longer.
  void For(absl::Duration duration);

  // The decision alone: when a sleep that begins at `begin` is to end, and what is owed after it
  // did at `woken`.
  absl::Time EndOf(absl::Time begin, absl::Duration duration) const;
  void Settle(absl::Time end, absl::Time woken) { owed_ = woken - end; }
  absl::Duration owed() const { return owed_; }

 private:
  absl::Duration owed_ = absl::ZeroDuration();
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_CLOCK_H_
