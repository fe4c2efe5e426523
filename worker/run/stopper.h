#ifndef GRADWIRE_WORKER_RUN_STOPPER_H_
#define GRADWIRE_WORKER_RUN_STOPPER_H_

#include <atomic>
#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "common/base/mutex.h"

namespace gradwire {

// Stops a worker early, with a guard that ends the process if it does not stop.
//
// The trainer may be in a forward pass that cannot be interrupted. If it has not ended kGrace after
// the request, the guard ends the process with the request's exit code, so all workers stop within
// 2 s.
class Stopper {
 public:
  using OnCut = std::function<void(const absl::Status& reason, int exit_code)>;

  // The guard calls `on_cut` on its own thread before it ends the process, and waits for it no
  // longer than kCutGrace. May be null.
  explicit Stopper(OnCut on_cut = nullptr);
  // Called when the worker ended in time.
  ~Stopper();

  // Requests the end; the first request counts. From any thread. `reason` is not OK.
  void Request(absl::Status reason, int exit_code);

  bool requested() const { return requested_; }
  // The request's reason and exit code; OK and 0 if there is none.
  absl::Status reason() const;
  int exit_code() const;

 private:
  void Guard();
  void RunOnCut(const absl::Status& reason, int exit_code) const;

  const OnCut on_cut_;
  std::atomic<bool> requested_{false};
  mutable Mutex mutex_;
  CondVar changed_;
  absl::Status reason_ ABSL_GUARDED_BY(mutex_);
  int exit_code_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread guard_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_STOPPER_H_
