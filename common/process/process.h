#ifndef GRADWIRE_COMMON_PROCESS_PROCESS_H_
#define GRADWIRE_COMMON_PROCESS_PROCESS_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/environment.h"

namespace gradwire {

// What to start.
struct Command {
  std::vector<std::string> argv;  // argv[0] is the path of the program
  Environment environment;        // all of it
  // What it has started itself and not ended lives on after it; else it is killed.
  bool leaves_others = false;
};

// A child that a ProcessSet runs. It leads a process group of its own, so that a
// terminal's Ctrl-C reaches the launcher alone; it gets SIGKILL from the kernel when
// the launcher's thread dies, however that happens. Not thread-safe.
class Process {
 public:
  // Of what it writes: bytes as they come, in pieces of any size.
  using OnBytes = std::function<void(absl::string_view bytes)>;

  // NotFound or FailedPrecondition if the program cannot be started: names it
  // and the cause.
  static absl::StatusOr<std::unique_ptr<Process>> Start(const Command& command, OnBytes on_out,
                                                        OnBytes on_err);
  // Kills its group and waits for it, if it has not been reaped.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  // To its whole group; from now on how it ends is no news. Does nothing once it
  // has been reaped.
  void Signal(int signal);
  // SIGTERM at one time, SIGKILL at the other or earlier, if that was to come.
  void EndAt(absl::Time terminate, absl::Time kill);

  bool ended() const { return ended_; }  // and reaped
  // It ended by itself, and not well.
  bool failed() const { return ended_ && status_ != 0 && !told_to_end_; }
  int status() const { return status_; }  // as wait() gives it
  // Most that it ever had resident; 0 before its end.
  uint64_t peak_memory_bytes() const { return peak_memory_bytes_; }
  // Somebody may still write to one of its outputs.
  bool output_open() const { return outputs_[0].open || outputs_[1].open; }

  // For the one who runs it:

  // Read end of its stdout (0) or stderr (1), non-blocking.
  int output_fd(int output) const { return outputs_[output].fd; }
  // A pidfd: readable once it has ended. Signals may be sent to it from any thread.
  int end_fd() const { return end_fd_; }
  // Hands out some of what has come; false when that output is closed.
  bool Read(int output);
  // Once it has ended: hands out what has come, kills those it leaves, and frees its id.
  void Reap();
  // When SendDue has something to do.
  absl::Time next_signal() const;
  void SendDue(absl::Time now);

 private:
  struct Output {
    int fd;
    OnBytes on_bytes;
    bool open = true;
  };

  Process(pid_t pid, int end_fd, bool leaves_others, Output out, Output err);
  bool ReadSome(Output* output);

  const pid_t pid_;
  const int end_fd_;
  const bool leaves_others_;
  std::array<Output, 2> outputs_;
  bool told_to_end_ = false;
  bool ended_ = false;
  int status_ = 0;
  uint64_t peak_memory_bytes_ = 0;
  absl::Time terminate_at_ = absl::InfiniteFuture();
  absl::Time kill_at_ = absl::InfiniteFuture();
};

// Exit code for a status of wait(): the program's own, or 128 + n for signal n.
int ExitCodeOf(int wait_status);
// "ended with exit code 3", "was ended by signal 9 (Killed)".
std::string DescribeEnd(int wait_status);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_PROCESS_PROCESS_H_
