#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "spdlog/spdlog.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing {
namespace {

constexpr char kMarkerName[] = "TEST_PROCESS_FAMILY";

std::string NewMarker() {
  static std::atomic<int> next = 0;
  return absl::StrCat(getpid(), ".", next++);
}

Environment WithoutOurs(const Environment& environment) {
  Environment others;
  for (const auto& variable : environment) {
    if (!absl::StartsWith(variable.first, "GRADWIRE_")) others.insert(variable);
  }
  return others;
}

// The state letter of /proc/PID/stat, or 'X' if there is no such process.
char StateOf(pid_t pid) {
  const std::string stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  const size_t name_end = stat.rfind(") ");
  return name_end == std::string::npos ? 'X' : stat[name_end + 2];
}

bool IsOfFamily(pid_t pid, const std::string& marker) {
  const std::string all = ReadFile(absl::StrCat("/proc/", pid, "/environ"));
  for (const absl::string_view entry : absl::StrSplit(all, '\0')) {
    if (entry == absl::StrCat(kMarkerName, "=", marker)) return true;
  }
  return false;
}

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// In the child, between fork and exec: system calls only. A group of its own keeps a terminal's
// Ctrl-C from it.
[[noreturn]] void Become(char* const* argv, char* const* envp, pid_t parent, int out, int err) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(argv[0], argv, envp);
  _exit(127);
}

}  // namespace

std::unique_ptr<Process> Process::Start(absl::string_view program,
                                        const std::vector<std::string>& arguments,
                                        const Environment& extra) {
  std::vector<std::string> argv = {absl::StrContains(program, "/") ? std::string(program)
                                                                   : ProgramPath(program)};
  if (access(argv[0].c_str(), X_OK) != 0) {
    spdlog::critical("cannot start '{}': {}", argv[0], std::strerror(errno));
    std::abort();
  }
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  Environment environment = extra;
  environment.merge(WithoutOurs(CurrentEnvironment()));
  auto process = absl::WrapUnique(new Process(NewMarker()));
  environment[kMarkerName] = process->marker_;
  std::promise<void> promise;
  std::future<void> started = promise.get_future();
  process->thread_ =
      std::thread(&Process::Run, process.get(), argv, environment, std::move(promise));
  started.wait();
  return process;
}

Process::~Process() {
  Signal(SIGKILL);
  for (auto left = Children(); !left.empty(); left = Children()) {
    for (const pid_t child : left) kill(child, SIGKILL);
    // A dying process shows no environment, so Children() would miss it.
    for (const pid_t child : left) {
      while (IsRunning(child)) absl::SleepFor(absl::Milliseconds(1));
    }
  }
  thread_.join();
}

void Process::Run(std::vector<std::string> argv, const Environment& environment,
                  std::promise<void> started) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(absl::StrCat(name, "=", value));
  const std::vector<char*> words = Pointers(&argv), envp = Pointers(&variables);
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) std::abort();
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) Become(words.data(), envp.data(), parent, out[1], err[1]);
  close(out[1]);
  close(err[1]);
  // glibc 2.36 has no C++ declaration of it.
  end_fd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (pid_ < 0 || end_fd_ < 0) std::abort();
  started.set_value();
  ReadAll(out[0], err[0]);
  for (const int fd : {out[0], err[0], end_fd_}) close(fd);
}

void Process::ReadAll(int out, int err) {
  std::array<pollfd, 3> watched = {{{out, POLLIN, 0}, {err, POLLIN, 0}, {end_fd_, POLLIN, 0}}};
  const auto is_open = [](const pollfd& each) { return each.fd >= 0; };
  while (std::any_of(watched.begin(), watched.end(), is_open)) {
    if (poll(watched.data(), watched.size(), -1) < 0) continue;
    if (watched[0].revents != 0 && !ReadSome(out, &out_)) watched[0].fd = -1;
    if (watched[1].revents != 0 && !ReadSome(err, &err_)) watched[1].fd = -1;
    if (watched[2].revents != 0) {
      Reap();
      watched[2].fd = -1;
    }
    MutexLock lock(&mutex_);
    output_open_ = is_open(watched[0]) || is_open(watched[1]);
    changed_.NotifyAll();
  }
}

// False at the end.
bool Process::ReadSome(int fd, std::string* text) {
  std::array<char, 65536> buffer;
  const ssize_t got = read(fd, buffer.data(), buffer.size());
  if (got <= 0) return got < 0 && errno == EINTR;
  MutexLock lock(&mutex_);
  text->append(buffer.data(), static_cast<size_t>(got));
  return true;
}

void Process::Reap() {
  MutexLock lock(&mutex_);
  rusage usage = {};
  int status = 0;
  wait4(pid_, &status, 0, &usage);
  ended_ = true;
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  peak_memory_bytes_ = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

uint64_t Process::peak_memory_bytes() const {
  MutexLock lock(&mutex_);
  return peak_memory_bytes_;
}

std::string Process::out() const {
  MutexLock lock(&mutex_);
  return out_;
}

std::string Process::err() const {
  MutexLock lock(&mutex_);
  return err_;
}

void Process::Signal(int signal) {
  MutexLock lock(&mutex_);
  if (!ended_) syscall(SYS_pidfd_send_signal, end_fd_, signal, nullptr, 0);
}

absl::StatusOr<int> Process::Wait(absl::Duration timeout) {
  const absl::Time deadline = SteadyNow() + timeout;
  MutexLock lock(&mutex_);
  while (!ended_ || output_open_) {
    if (SteadyNow() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(ended_ ? "ended, but its children hold its output" : "still running",
                       " after ", absl::FormatDuration(timeout), "; ", Tail()));
    }
    changed_.WaitWithDeadline(&mutex_, deadline);
  }
  return exit_code_;
}

absl::Status Process::WaitForOutput(absl::string_view text, absl::Duration timeout) {
  const absl::Time deadline = SteadyNow() + timeout;
  MutexLock lock(&mutex_);
  while (!absl::StrContains(out_, text) && !absl::StrContains(err_, text)) {
    if (!output_open_) {
      return absl::FailedPreconditionError(absl::StrCat("never wrote '", text, "'; ", Tail()));
    }
    if (SteadyNow() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("no '", text, "' in ", absl::FormatDuration(timeout), "; ", Tail()));
    }
    changed_.WaitWithDeadline(&mutex_, deadline);
  }
  return absl::OkStatus();
}

std::vector<pid_t> Process::Children() const {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid) || pid == pid_) continue;
    if (IsRunning(pid) && IsOfFamily(pid, marker_)) found.push_back(pid);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string Process::Tail() const {
  const auto tail = [](const std::string& text) {
    constexpr size_t kBytes = 2000;
    return text.substr(text.size() - std::min(text.size(), kBytes));
  };
  return absl::StrCat("stdout: …", tail(out_), "\nstderr: …", tail(err_));
}

std::string ProgramPath(absl::string_view name) {
  return absl::StrCat(GRADWIRE_BIN_DIR, "/", name);
}

std::string SourcePath(absl::string_view path) {
  return absl::StrCat(GRADWIRE_SOURCE_DIR, "/", path);
}

bool IsRunning(pid_t pid) {
  const char state = StateOf(pid);
  return state != 'X' && state != 'Z';
}

}  // namespace gradwire::testing
