#ifndef GRADWIRE_CLI_TERMINAL_PROCESS_H_
#define GRADWIRE_CLI_TERMINAL_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/environment.h"

namespace gradwire {

// What to start.
struct Command {
  std::vector<std::string> argv;  // argv[0] is the path of the program
  Environment environment;        // all of it
};

// A child and the pipes that its output comes through. It leads a process group
// of its own, so that a terminal's Ctrl-C reaches the launcher alone; it gets
// SIGKILL from the kernel when the launcher's thread dies, however that happens.
// Not thread-safe.
class Process {
 public:
  // NotFound or FailedPrecondition if the program cannot be started: names it
  // and the cause.
  static absl::StatusOr<std::unique_ptr<Process>> Start(const Command& command);
  // Kills its group and waits for it, if it has not been reaped.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  // Read ends, non-blocking; closed by the destructor.
  int out_fd() const { return out_fd_; }
  int err_fd() const { return err_fd_; }

  // To its whole group. Does nothing once it has been reaped.
  void Signal(int signal);
  // True once it has ended; then status() says how. Does not wait.
  bool Reap();
  bool reaped() const { return reaped_; }
  // As wait() gives it.
  int status() const { return status_; }

 private:
  Process(pid_t pid, int out_fd, int err_fd) : pid_(pid), out_fd_(out_fd), err_fd_(err_fd) {}

  const pid_t pid_;
  const int out_fd_;
  const int err_fd_;
  bool reaped_ = false;
  int status_ = 0;
};

// Exit code for a status of wait(): the program's own, or 128 + n for signal n.
int ExitCodeOf(int wait_status);
// "ended with exit code 3", "was ended by signal 9 (Killed)".
std::string DescribeEnd(int wait_status);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TERMINAL_PROCESS_H_
