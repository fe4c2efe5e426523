#ifndef GRADWIRE_COMMON_PROCESS_PROCESS_SET_H_
#define GRADWIRE_COMMON_PROCESS_PROCESS_SET_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/process/group_guard.h"
#include "common/process/process.h"

namespace gradwire {

// Programs that run beside each other. All happens in the calling thread, which is
// also the one whose death ends them:
//
//   Wait ─► output, ends (in the order in which they came) ─► handlers of Start
//        ─► signals that are due (Process::EndAt)
//
// Nothing is left of them after the destructor, nor if this process is killed,
// but for what Command::leaves_others allows. Not thread-safe.
class ProcessSet {
 public:
  ProcessSet();
  // Kills what still runs.
  ~ProcessSet();
  ProcessSet(const ProcessSet&) = delete;
  ProcessSet& operator=(const ProcessSet&) = delete;

  // The process lives as long as the set. `on_end` is called after all output.
  // Errors as Process::Start; Unavailable if this process has too many files open.
  absl::StatusOr<Process*> Start(
      const Command& command, Process::OnBytes on_out, Process::OnBytes on_err,
      std::function<void()> on_end = [] {});

  // Waits for something to happen, at most until `until`, and handles it.
  void Wait(absl::Time until);
  // From now on Wait returns when `fd` is readable; the caller reads it.
  void WakeOn(int fd);

  // Some have not ended.
  bool AnyRuns() const;

 private:
  struct Running {
    std::unique_ptr<Process> process;
    std::function<void()> on_end;
  };

  bool Watch(int fd, uint64_t what);
  void Handle(uint64_t what);
  void End(Running* running);
  absl::Time NextSignal() const;

  GroupGuard guard_;
  std::deque<Running> running_;  // a handler may start another
  const int epoll_fd_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_PROCESS_PROCESS_SET_H_
