#include "cli/terminal/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

absl::StatusOr<std::unique_ptr<Process>> Process::Start(const Command& command) {
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
  int error = 0;
  ssize_t got;
  do {
    got = read(failure.fds[0], &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  if (got > 0) {
    waitpid(pid, nullptr, 0);
    return CannotStart(command.argv[0], error);
  }
  MakeNonBlocking(out.fds[0]);
  MakeNonBlocking(err.fds[0]);
  return absl::WrapUnique(new Process(pid, out.Release(0), err.Release(0)));
}

Process::~Process() {
  if (!reaped_) {
    Signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(out_fd_);
  close(err_fd_);
}

void Process::Signal(int signal) {
  if (!reaped_) kill(-pid_, signal);
}

bool Process::Reap() {
  if (!reaped_ && waitpid(pid_, &status_, WNOHANG) == pid_) reaped_ = true;
  return reaped_;
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
