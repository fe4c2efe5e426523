#ifndef GRADWIRE_TESTS_SUPPORT_PROCESS_H_
#define GRADWIRE_TESTS_SUPPORT_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/environment.h"
#include "common/base/mutex.h"

namespace gradwire::testing {

// A program that runs beside the test, with all that it starts itself. Its
// standard input is empty; its output is kept in memory. Safe to call from any
// thread. The destructor kills what still runs.
//
// A thread of its own starts it and reads what it writes; the kernel kills it when that thread
// dies, as with the test's program. Processes of the same family are told by a variable in
// their environment, so children are found even when their parent is gone.
class Process {
 public:
  // Starts `program`: a path, or the name of one of our programs. `extra` comes
  // on top of this process's environment, without its GRADWIRE_* variables.
  // Aborts if the program cannot be started.
  static std::unique_ptr<Process> Start(absl::string_view program,
                                        const std::vector<std::string>& arguments,
                                        const Environment& extra = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  std::string out() const;  // what it wrote to its standard output so far
  std::string err() const;  // … and to its standard error

  // Sends a signal to the program alone. Does nothing once it has ended.
  void Signal(int signal);
  // Waits until it has ended and its output is closed; then gives its exit code,
  // or 128 + n if signal n ended it. DeadlineExceeded with the end of its output
  // if that takes longer than `timeout`.
  absl::StatusOr<int> Wait(absl::Duration timeout);
  // Waits until either output contains `text`. DeadlineExceeded after `timeout`;
  // FailedPrecondition if it closed its output before. Both quote the output.
  absl::Status WaitForOutput(absl::string_view text, absl::Duration timeout);
  // Most memory that the program alone ever had resident; 0 before its end.
  uint64_t peak_memory_bytes() const;
  // Processes of this family that run, oldest first, without the program itself.
  std::vector<pid_t> Children() const;

 private:
  explicit Process(std::string marker) : marker_(std::move(marker)) {}
  void Run(std::vector<std::string> argv, const Environment& environment,
           std::promise<void> started);
  void ReadAll(int out, int err);
  bool ReadSome(int fd, std::string* text);
  void Reap();
  std::string Tail() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string marker_;  // value of the variable in the family's environments
  pid_t pid_ = -1;
  int end_fd_ = -1;
  std::thread thread_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::string out_ ABSL_GUARDED_BY(mutex_);
  std::string err_ ABSL_GUARDED_BY(mutex_);
  bool output_open_ ABSL_GUARDED_BY(mutex_) = true;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  int exit_code_ ABSL_GUARDED_BY(mutex_) = -1;
  uint64_t peak_memory_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Path of one of our programs in the build's bin folder.
std::string ProgramPath(absl::string_view name);
// Path of a file of the project's sources.
std::string SourcePath(absl::string_view path);
// True if a process of that id runs and is no zombie.
bool IsRunning(pid_t pid);

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_SUPPORT_PROCESS_H_
