#ifndef GRADWIRE_COMMON_BASE_PACED_SLEEP_H_
#define GRADWIRE_COMMON_BASE_PACED_SLEEP_H_

#include "absl/time/time.h"

namespace gradwire {

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

#endif  // GRADWIRE_COMMON_BASE_PACED_SLEEP_H_
