#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_STRAGGLER_WATCH_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_STRAGGLER_WATCH_H_

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// What a worker is at, as it said last.
struct Work {
  Step step;
  std::string phase;             // "backward"
  bool waits = false;            // for others' part of the step
  std::optional<Bucket> bucket;  // of which it waits for
  absl::Time since;              // it began with that
  absl::Time told;
  Generation generation = {};  // of the view in which it did
};
// As a heartbeat has it that came `now`.
Work WorkOf(const v1::Work& work, absl::Time now);

// A worker that others have waited for, for long.
struct Straggler {
  Incarnation worker;
  Step step;                     // of those who wait
  absl::Duration waited;         // by the one that has for longest
  Incarnation waiting;           // that one
  std::optional<Bucket> bucket;  // that it waits for
  Work work;                     // of the straggler, as far as it is known
};

// Finds who holds up a step: others wait in it, for longer than max(3 × the median iteration, 2 s),
// and the worker has not come to waiting in that step, or has said nothing for so long that it
// would have said something. If there is none, and all are heard, it is one that waits in an
// earlier step. Names each worker once a step.
//
// Pure: times are of a clock that never falls.
class StragglerWatch {
 public:
  // `silence`: of a worker that is well, at most; heartbeats come four times a second.
  explicit StragglerWatch(absl::Duration silence = absl::Seconds(3)) : silence_(silence) {}

  void OnStep(absl::Duration iteration);
  void OnWork(Incarnation worker, Work work);
  // It has gone, or carries other ranks from now on.
  void Forget();
  // What it is at, as it said last; null if it has not.
  const Work* Find(Incarnation worker) const;

  // Those to be named now.
  std::vector<Straggler> Find(absl::Time now);

 private:
  absl::Duration Patience() const;
  // Of those who wait in the furthest step, the one that has for longest, if one of those that are
  // heard waits; null if nobody waits.
  const std::pair<const Incarnation, Work>* LongestWaiting(absl::Time now) const;
  // Whether it is known to hold up others that wait in `step`.
  bool Holds(const Work& work, Step step, absl::Time now) const;
  // Whether others have what it waits for: of one that is heard that counts only if all are, as it
  // may wait for the one that is not.
  bool IsOvertaken(const Work& work, Step step, absl::Time now) const;

  const absl::Duration silence_;
  std::deque<absl::Duration> iterations_;  // the last
  std::map<Incarnation, Work> work_;
  std::map<Incarnation, Step> named_;  // in which step last
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_STRAGGLER_WATCH_H_
