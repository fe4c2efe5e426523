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

// The current work of a worker, by its last report.
struct Work {
  Step step;
  std::string phase;             // "backward"
  bool waits = false;            // for the others' parts of the step
  std::optional<Bucket> bucket;  // that it waits for
  absl::Time since;              // start of that phase
  absl::Time told;
  Generation generation = {};  // of its view
};
// Converts the work in a heartbeat that came at `now`.
Work WorkOf(const v1::Work& work, absl::Time now);

// A worker that others have waited long for.
struct Straggler {
  Incarnation worker;
  Step step;                     // of the waiting workers
  absl::Duration waited;         // longest wait of a worker
  Incarnation waiting;           // the worker with the longest wait
  std::optional<Bucket> bucket;  // that it waits for
  Work work;                     // of the straggler, if known
};

// Finds the worker that holds up a step. Others must have waited in the step longer than max(3 ×
// the median iteration, 2 s). The straggler does not wait in that step yet, or it has missed
// reports. If no such worker exists and all are heard, the straggler waits in an earlier step.
// Names each worker once per step.
//
// Pure: times must come from a monotonic clock.
class StragglerWatch {
 public:
  // `silence`: longest silence of a healthy worker; heartbeats come four times a second.
  explicit StragglerWatch(absl::Duration silence = absl::Seconds(3)) : silence_(silence) {}

  void OnStep(absl::Duration iteration);
  void OnWork(Incarnation worker, Work work);
  // The worker has gone, or carries other ranks from now on.
  void Forget();
  // Returns its last report; null if there is none.
  const Work* Find(Incarnation worker) const;

  // Returns the stragglers that must be named now.
  std::vector<Straggler> Find(absl::Time now);

 private:
  absl::Duration Patience() const;
  // Returns the worker that has waited longest among those in the furthest step, if a heard one
  // waits; null if no worker waits.
  const std::pair<const Incarnation, Work>* LongestWaiting(absl::Time now) const;
  // Returns whether the worker is known to hold up others in `step`.
  bool Holds(const Work& work, Step step, absl::Time now) const;
  // Returns whether others already have the data that it waits for. If the worker is heard, this
  // counts only if all are heard, because it may wait for a silent one.
  bool IsOvertaken(const Work& work, Step step, absl::Time now) const;

  const absl::Duration silence_;
  std::deque<absl::Duration> iterations_;  // the latest
  std::map<Incarnation, Work> work_;
  std::map<Incarnation, Step> named_;  // step in which each was last named
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_STRAGGLER_WATCH_H_
