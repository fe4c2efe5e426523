#ifndef GRADWIRE_WORKER_DATA_PARALLEL_DEVICES_H_
#define GRADWIRE_WORKER_DATA_PARALLEL_DEVICES_H_

#include <c10/core/thread_pool.h>

#include <functional>
#include <future>
#include <memory>
#include <vector>

namespace gradwire {

// Groups of compute threads of this process, each of which works on its own:
//
//   device 0        the thread that calls Run, with its intra-op threads
//   device 1, 2 …   a thread each, with as many intra-op threads
//
// Not thread-safe.
class Devices {
 public:
  // `count` devices, at least 1, of `threads` compute threads each; the caller of Run has set
  // its own. `kept`: threads last as long as this object; else each Run makes new ones.
  Devices(int count, int threads, bool kept);

  int count() const { return count_; }

  // Calls task(d) on device d, for 0 ≤ d < `used` ≤ count() at the same time, and returns when
  // all have ended. Throws a c10::Error if a task threw: what the lowest device said, and
  // which one that was.
  void Run(int used, const std::function<void(int)>& task);

 private:
  // `task` catches what it throws itself.
  std::future<void> Start(int device, std::function<void()> task);

  const int count_;
  const int threads_;
  std::vector<std::unique_ptr<c10::ThreadPool>> kept_;  // of device 1, 2 …; none unless kept
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DATA_PARALLEL_DEVICES_H_
