#ifndef GRADWIRE_COMMON_BASE_COUNTDOWN_H_
#define GRADWIRE_COMMON_BASE_COUNTDOWN_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace gradwire {

// Waits for a number of operations to end, and keeps the first error. Thread-safe;
// may be destroyed when Wait has returned.
class Countdown {
 public:
  explicit Countdown(size_t count) : left_(count) {}

  // One operation ended.
  void Done(const absl::Status& status) {
    MutexLock lock(&mutex_);
    if (status_.ok()) status_ = status;
    if (--left_ == 0) changed_.NotifyAll();
  }

  // Waits for all until `deadline`; false if it passed first.
  bool WaitUntil(absl::Time deadline) {
    MutexLock lock(&mutex_);
    while (left_ > 0) {
      if (changed_.WaitWithDeadline(&mutex_, deadline)) return left_ == 0;
    }
    return true;
  }

  // Waits for all; returns the first error, or OK.
  absl::Status Wait() {
    MutexLock lock(&mutex_);
    while (left_ > 0) changed_.Wait(&mutex_);
    return status_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  size_t left_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_COUNTDOWN_H_
