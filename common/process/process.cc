#include "common/process/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

// Both ends are closed on exec; Close() makes an end -1.
struct Pipe {
  int fds[2] = {-1, -1};

  Pipe() {
    if (pipe2(fds, O_CLOEXEC) != 0) fds[0] = fds[1] = -1;
  }
  ~Pipe() {
    Close(0);
    Close(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  bool ok() const { return fds[0] >= 0; }
  void Close(int end) {
    if (fds[end] >= 0) close(fds[end]);
    fds[end] = -1;
  }
  int Release(int end) {
    const int fd = fds[end];
    fds[end] = -1;
    return fd;
  }
};

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// In the child, between fork and exec: system calls only.
[[noreturn]] void Become(const std::vector<char*>& argv, const std::vector<char*>& envp,
                         pid_t parent, int out, int err, int failure) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the launcher died before prctl
  const int null = open("/dev/null", O_RDONLY);
  if (null >= 0) dup2(null, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(argv[0], argv.data(), envp.data());
  const int error = errno;
  if (write(failure, &error, sizeof(error)) < 0) _exit(126);
  _exit(127);
}

absl::Status CannotStart(const std::string& program, int error) {
  const std::string message = absl::StrCat("cannot start '", program, "': ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::FailedPreconditionError(message);
}

void MakeNonBlocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

absl::StatusOr<std::unique_ptr<Process>> Process::Start(const Command& command, OnBytes on_out,
                                                        OnBytes on_err) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : command.environment) {
    variables.push_back(absl::StrCat(name, "=", value));
  }
  const std::vector<char*> argv = Pointers(command.argv);
  const std::vector<char*> envp = Pointers(variables);
  Pipe out, err, failure;
  if (!out.ok() || !err.ok() || !failure.ok()) return CannotStart(command.argv[0], errno);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return CannotStart(command.argv[0], errno);
  if (pid == 0) Become(argv, envp, parent, out.fds[1], err.fds[1], failure.fds[1]);
  setpgid(pid, pid);  // here too, so that it is done before anyone signals the group
  failure.Close(1);
  // glibc 2.36 has no C++ declaration of it.
  const int end_fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  int error = end_fd < 0 ? errno : 0;
  if (error != 0) kill(pid, SIGKILL);
  ssize_t got;
  do {
    got = read(failure.fds[0], &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  if (error != 0) {
    waitpid(pid, nullptr, 0);
    if (end_fd >= 0) close(end_fd);
    return CannotStart(command.argv[0], error);
  }
  MakeNonBlocking(out.fds[0]);
  MakeNonBlocking(err.fds[0]);
  return absl::WrapUnique(new Process(pid, end_fd, command.leaves_others,
                                      {out.Release(0), std::move(on_out)},
                                      {err.Release(0), std::move(on_err)}));
}

Process::Process(pid_t pid, int end_fd, bool leaves_others, Output out, Output err)
    : pid_(pid),
      end_fd_(end_fd),
      leaves_others_(leaves_others),
      outputs_{std::move(out), std::move(err)} {}

Process::~Process() {
  if (!ended_) {
    Signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {outputs_[0].fd, outputs_[1].fd, end_fd_}) close(fd);
}

void Process::Signal(int signal) {
  if (ended_) return;
  kill(-pid_, signal);
  told_to_end_ = true;
}

void Process::EndAt(absl::Time terminate, absl::Time kill) {
  terminate_at_ = terminate;
  kill_at_ = std::min(kill_at_, kill);
}

bool Process::Read(int output) {
  ReadSome(&outputs_[output]);
  return outputs_[output].open;
}

// True if there may be more.
bool Process::ReadSome(Output* output) {
  std::array<char, 65536> buffer;
  const ssize_t got = output->open ? read(output->fd, buffer.data(), buffer.size()) : 0;
  if (got > 0) output->on_bytes(absl::string_view(buffer.data(), static_cast<size_t>(got)));
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) output->open = false;
  return got > 0;
}

void Process::Reap() {
  // Before its id is free, and with it the group's, which another might get.
  if (!leaves_others_) kill(-pid_, SIGKILL);
  rusage usage = {};
  while (wait4(pid_, &status_, 0, &usage) < 0 && errno == EINTR) continue;
  ended_ = true;
  peak_memory_bytes_ = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  for (Output& output : outputs_) {
    while (ReadSome(&output)) continue;
    // One that has left the group may hold it open for long.
    if (!leaves_others_) output.open = false;
  }
}

absl::Time Process::next_signal() const {
  return ended_ ? absl::InfiniteFuture() : std::min(terminate_at_, kill_at_);
}

void Process::SendDue(absl::Time now) {
  if (now >= terminate_at_) {
    Signal(SIGTERM);
    terminate_at_ = absl::InfiniteFuture();
  }
  if (now >= kill_at_) {
    Signal(SIGKILL);
    kill_at_ = absl::InfiniteFuture();
  }
}

int ExitCodeOf(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string DescribeEnd(int wait_status) {
  if (!WIFSIGNALED(wait_status)) {
    return absl::StrCat("ended with exit code ", WEXITSTATUS(wait_status));
  }
  const int number = WTERMSIG(wait_status);
  return absl::StrCat("was ended by signal ", number, " (", strsignal(number), ")");
}

}  // namespace gradwire
