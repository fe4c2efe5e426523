#ifndef GRADWIRE_WORKER_STATE_CHECKPOINT_SCHEDULE_H_
#define GRADWIRE_WORKER_STATE_CHECKPOINT_SCHEDULE_H_

#include <cstdint>
#include <set>

#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace gradwire {

// Decides before which steps a worker copies its state; all workers decide alike. IsDue and Add may
// be called from any thread.
class CheckpointSchedule {
 public:
  // `every`: steps from one copy to the next; 0: none but those of Add, and the last.
  // `total`: number of steps of the run.
  CheckpointSchedule(uint64_t every, uint64_t total) : every_(every), total_(total) {}

  // The coordinator asks for a copy before `step`.
  void Add(Step step) {
    MutexLock lock(&mutex_);
    asked_.insert(step.value());
  }

  // Whether a copy is due before `next`, the first step that is not done.
  bool IsDue(Step next) const {
    const uint64_t done = next.value();
    if (done == 0) return false;
    if (done == total_ || (every_ > 0 && done % every_ == 0)) return true;
    MutexLock lock(&mutex_);
    return asked_.count(done) > 0;
  }

  // Called before each step, in order. `at_border`: the state can be copied now. Returns whether to
  // copy it: a copy is due now, or was due since the last border.
  bool Take(Step next, bool at_border) {
    wanted_ = wanted_ || IsDue(next);
    if (!wanted_ || !at_border) return false;
    wanted_ = false;
    MutexLock lock(&mutex_);
    asked_.erase(asked_.begin(), asked_.upper_bound(next.value()));
    return true;
  }

 private:
  const uint64_t every_;
  const uint64_t total_;
  bool wanted_ = false;
  mutable Mutex mutex_;
  std::set<uint64_t> asked_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_STATE_CHECKPOINT_SCHEDULE_H_
