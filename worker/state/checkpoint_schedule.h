#ifndef GRADWIRE_WORKER_STATE_CHECKPOINT_SCHEDULE_H_
#define GRADWIRE_WORKER_STATE_CHECKPOINT_SCHEDULE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <utility>

#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace gradwire {

// Decides before which steps a worker copies its state; all workers decide alike. Thread-safe.
class CheckpointSchedule {
 public:
  // `every`: steps from one copy to the next; 0: none but those of Add, and the last.
  // `total`: number of steps of the run.
  CheckpointSchedule(uint64_t every, uint64_t total) : every_(every), total_(total) {}

  // The coordinator asks for a copy before `step`, or at the first border behind it. Does nothing,
  // and returns false, if it has been decided that there is none.
  bool Add(Step step) {
    MutexLock lock(&mutex_);
    if (step.value() <= seen_) {  // it may have been copied, because it was due by `every`
      if (WillBeTaken(step.value())) return true;
      return std::find(taken_.begin(), taken_.end(), step.value()) != taken_.end();
    }
    asked_.insert(step.value());
    return true;
  }

  // Returns the view of the last Take.
  Generation view() const {
    MutexLock lock(&mutex_);
    return view_;
  }

  // Whether a copy is due before `next`, the first step that is not done. That is final: Add of
  // this step is refused from now on.
  bool IsDue(Step next) {
    const uint64_t done = next.value();
    MutexLock lock(&mutex_);
    seen_ = std::max(seen_, done);
    return done > 0 && WasDue(done - 1, done);
  }

  // Called before each step, in order within a view; a later view may begin with an earlier step.
  // `at_border`: the state can be copied now. Returns whether to copy it: since the last copy one
  // was due. A copy of an earlier view before `next` or later does not count: it is gone.
  bool Take(Step next, Generation view, bool at_border) {
    MutexLock lock(&mutex_);
    const uint64_t done = next.value();
    if (at_border) seen_ = done;
    if (taken_.empty()) taken_.push_back(done == 0 ? 0 : done - 1);
    if (std::exchange(view_, view) != view) {
      while (taken_.size() > 1 && taken_.back() >= done) taken_.pop_back();
    }
    if (!at_border || !WasDue(taken_.back(), done)) return false;
    taken_.push_back(done);
    if (taken_.size() > kKept) {
      taken_.pop_front();
      asked_.erase(asked_.begin(), asked_.upper_bound(taken_.front()));
    }
    return true;
  }

 private:
  static constexpr size_t kKept = 8;  // more than a later view can go back

  // Whether a copy was due before a step behind `after`, up to `done`.
  bool WasDue(uint64_t after, uint64_t done) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (after >= done) return false;
    if (done == total_ || (every_ > 0 && done / every_ > after / every_)) return true;
    const auto asked = asked_.upper_bound(after);
    return asked != asked_.end() && *asked <= done;
  }

  // Whether the next Take makes a copy before `done`, as IsDue said.
  bool WillBeTaken(uint64_t done) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !taken_.empty() && taken_.back() < done && WasDue(done - 1, done);
  }

  const uint64_t every_;
  const uint64_t total_;
  mutable Mutex mutex_;
  Generation view_ ABSL_GUARDED_BY(mutex_);
  uint64_t seen_ ABSL_GUARDED_BY(mutex_) = 0;  // the last step that IsDue or Take decided
  std::set<uint64_t> asked_ ABSL_GUARDED_BY(mutex_);
  // Steps of the latest copies, ascending. Before the first copies, the step before this process's
  // first one stands in front.
  std::deque<uint64_t> taken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_STATE_CHECKPOINT_SCHEDULE_H_
