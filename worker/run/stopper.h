#ifndef GRADWIRE_WORKER_RUN_STOPPER_H_
#define GRADWIRE_WORKER_RUN_STOPPER_H_

#include <atomic>
#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "common/base/mutex.h"

namespace gradwire {

// Why a worker has to end before its time, and the guard that it does.
//
// The trainer may be deep in a forward pass that cannot be interrupted. If it
// has not ended kGrace after the request, the process is ended with the exit
// code of the request, so that everyone stops within 2 s.
class Stopper {
 public:
  using OnCut = std::function<void(const absl::Status& reason, int exit_code)>;

  // `on_cut` is called in a thread of its own before the guard ends the process, which waits for it
  // no longer than kCutGrace; null: nothing is called.
  explicit Stopper(OnCut on_cut = nullptr);
  // The worker ended in time.
  ~Stopper();

  // From any thread; the first request wins. `reason` is not OK.
  void Request(absl::Status reason, int exit_code);

  bool requested() const { return requested_; }
  // Of the request; OK and 0 if there is none.
  absl::Status reason() const;
  int exit_code() const;
  // Waits for a request until `deadline`; whether there is one.
  bool WaitForRequest(absl::Time deadline);

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
