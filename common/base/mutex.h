#ifndef GRADWIRE_COMMON_BASE_MUTEX_H_
#define GRADWIRE_COMMON_BASE_MUTEX_H_

#include <condition_variable>
#include <cstddef>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

namespace gradwire {

// std::mutex with thread-safety annotations. (Debian's Abseil is not built for
// ThreadSanitizer, and absl::Mutex gives false races there.)
class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_->Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* mutex_;
};

// A wait may wake without cause: call it in a loop over the condition.
class CondVar {
 public:
  void Wait(Mutex* mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    cond_.wait(lock);
    lock.release();
  }
  // Returns true if the deadline (of SteadyNow) has passed.
  bool WaitWithDeadline(Mutex* mutex, absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (deadline == absl::InfiniteFuture()) {
      Wait(mutex);
      return false;
    }
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    const auto result = cond_.wait_for(lock, absl::ToChronoNanoseconds(deadline - SteadyNow()));
    lock.release();
    return result == std::cv_status::timeout;
  }
  void NotifyOne() { cond_.notify_one(); }
  void NotifyAll() { cond_.notify_all(); }

 private:
  std::condition_variable cond_;
};

// Waits for a number of operations to end, and keeps the first error. Thread-safe; may be destroyed
// once Wait has returned.
class BlockingCounter {
 public:
  explicit BlockingCounter(size_t count) : left_(count) {}

  // One operation has ended.
  void Done(const absl::Status& status) {
    MutexLock lock(&mutex_);
    if (status_.ok()) status_ = status;
    if (--left_ == 0) changed_.NotifyAll();
  }

  // Waits for all operations; returns false if `deadline` passes first.
  bool WaitUntil(absl::Time deadline) {
    MutexLock lock(&mutex_);
    while (left_ > 0) {
      if (changed_.WaitWithDeadline(&mutex_, deadline)) return left_ == 0;
    }
    return true;
  }

  // Waits for all operations; returns the first error, or OK.
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

#endif  // GRADWIRE_COMMON_BASE_MUTEX_H_
