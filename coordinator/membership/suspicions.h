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

// One worker says that another one does not answer it, while both are heard here.
struct Suspicion {
  Incarnation by;
  Incarnation suspect;       // if late, of no worker if `by` cannot know
  std::string by_name;       // "rank 0"
  std::string suspect_name;  // "rank 1"
  std::string cause;
  // It ended a call, perhaps for another one's sake.
  bool broke_off = false;
  double at = 0;  // when `by` found out; see Suspect
  // It may answer, but its part of `step` did not come in time.
  bool late = false;
  Step step = {};
};

// A worker that is to be lost for suspicions, and why, as a message has it: "rank 0 got no answer
// from it: …" or "it got no answer from rank 1: …".
struct Culprit {
  Incarnation incarnation;
  std::string cause;
};

// What is known of a worker of the view.
struct WorkerState {
  Incarnation incarnation;
  absl::Time heard;          // last
  bool ready = false;        // for the first step that is not sealed
  bool owes_layout = false;  // others have declared one that it has not
  std::optional<Work> work;  // in this view; none: it has not begun, or does not tell
  bool is_over = false;      // it has finished, or is lost already
};

// What workers of a view have said of each other, and who is to be lost for it: the fewest workers
// without whom nobody would have a suspicion left, as it may be the one who suspects that nobody
// reaches. One who only broke off counts if nobody else is suspected, and of several the
// one that was found out first: one loss makes a whole ring break off. Of as few, those who were
// not heard here either since the first suspicion; then those who already stood in suspicions for
// which another one was lost, without a step being sealed since; then those that joined last.
//
// That a step is late is another matter: those that say so wait, and all who wait may have the same
// cause. Then those are lost who do not wait for others, as they say themselves, and are not beyond
// that step; if there are none, those that were not heard since; if all were, those who have not
// come as far as one that waits in vain. Whom the word names counts only if they tell nothing of
// their work. Nobody is lost if all wait for each other.
//
// Pure, like Membership.
class Suspicions {
 public:
  // Of a pair the first counts, and of all the first kMost; those who cannot reach each other say
  // it again in the next view. Of what is late the first kMostLate count.
  static constexpr size_t kMost = 12;
  static constexpr size_t kMostLate = 1024;
  void Add(Suspicion suspicion, absl::Time now);

  // When the first of them came; none if there is none.
  std::optional<absl::Time> since() const;

  // This worker is lost by a cause of its own, which explains what it said and what was said of it.
  void Explain(Incarnation lost);
  // They were of an earlier view.
  void Forget() {
    told_.clear();
    late_.clear();
  }
  // Workers have reached each other.
  void OnSealed() { stood_.clear(); }

  // Those who are to be lost, and forgets the suspicions. `joined`: the workers in order of
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
  std::vector<Told> late_;       // of them, those that say that a part is late
  std::set<Incarnation> stood_;  // in suspicions of which somebody else was lost
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_SUSPICIONS_H_
