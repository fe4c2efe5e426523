#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_SUSPICIONS_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_SUSPICIONS_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "coordinator/membership/straggler_watch.h"

namespace gradwire {

// One worker says that another one does not answer it; the coordinator hears both.
struct Suspicion {
  Incarnation by;
  Incarnation suspect;       // if late: no worker if `by` cannot know
  std::string by_name;       // "rank 0"
  std::string suspect_name;  // "rank 1"
  std::string cause;
  // It ended a call, perhaps because of another worker.
  bool broke_off = false;
  double at = 0;  // when `by` noticed; see Suspect
  // It may answer, but its part of `step` was late.
  bool late = false;
  Step step = {};
};

// A worker that is lost because of suspicions, and the cause for messages: "rank 0 got no answer
// from it: …" or "it got no answer from rank 1: …".
struct Culprit {
  Incarnation incarnation;
  std::string cause;
};

// The state of a worker of the view.
struct WorkerState {
  Incarnation incarnation;
  absl::Time heard;          // last
  bool ready = false;        // for the first step that is not sealed
  bool owes_layout = false;  // it has not declared a layout that others have
  std::optional<Work> work;  // in this view; none: not begun, or not reported
  bool is_over = false;      // it has finished, or is already lost
};

// Suspicions of the workers of a view. They cause the loss of the smallest set of workers whose
// removal resolves every suspicion. The suspecting worker can be lost instead of the suspect,
// because it may be the unreachable one. A worker that only broke off counts if no other is
// suspected; if several broke off, only the first one counts, because one loss makes a whole ring
// break off. Among sets of equal size, these workers are lost first:
//   1. workers that have been silent since the first suspicion,
//   2. workers that were in earlier suspicions for which another one was lost, with no step sealed
//      since,
//   3. workers that joined last.
//
// A late step is different: its reporters wait, and all waiting workers may have the same cause.
// These workers are lost; each rule applies only if the one before finds no worker:
//   1. workers that do not wait, by their own reports, and are not beyond that step,
//   2. workers that have been silent since,
//   3. workers that are behind a worker that waits in vain.
// The worker named in the report counts only if it reports no work. If all wait for each other, no
// worker is lost.
//
// Pure, like Membership.
class Suspicions {
 public:
  // Only the first suspicion of each pair counts, and only the first kMost in all; workers that
  // cannot reach each other report it again in the next view. Limit of late steps: kMostLate.
  static constexpr size_t kMost = 12;
  static constexpr size_t kMostLate = 1024;
  void Add(Suspicion suspicion, absl::Time now);

  // Returns when the first suspicion came; none if there is none.
  std::optional<absl::Time> since() const;

  // This worker is lost by a cause of its own, which explains all suspicions by it and of it.
  void Explain(Incarnation lost);
  // Drops the suspicions of an earlier view.
  void Forget() {
    told_.clear();
    late_.clear();
  }
  // The coordinator itself stood still that long, and heard no other cause meanwhile.
  void OnPause(absl::Duration still);
  // Workers have reached each other.
  void OnSealed() { stood_.clear(); }

  // Returns the workers to be lost, and forgets the suspicions. `joined`: the workers in order of
  // joining.
  std::vector<Culprit> Judge(const std::vector<WorkerState>& joined);

 private:
  struct Told {
    Suspicion suspicion;
    absl::Time at;
  };

  void KeepWhatCounts();
  std::set<Incarnation> FewestOf(const std::vector<WorkerState>& joined, absl::Time since) const;
  std::vector<Culprit> JudgeUnreached(const std::vector<WorkerState>& joined);
  std::vector<Culprit> JudgeLate(const std::vector<WorkerState>& joined) const;

  std::vector<Told> told_;
  std::vector<Told> late_;       // those about late parts
  std::set<Incarnation> stood_;  // in suspicions for which another worker was lost
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_SUSPICIONS_H_
