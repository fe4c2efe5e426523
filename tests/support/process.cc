#include "tests/support/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "spdlog/spdlog.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing {
namespace {

constexpr char kMarkerName[] = "TEST_PROCESS_FAMILY";

std::string NewMarker() {
  static std::atomic<int> next = 0;
  return absl::StrCat(kMarkerName, "=", getpid(), ".", next++);
}

std::vector<std::string> MakeEnvironment(const Process::Environment& extra,
                                         const std::string& marker) {
  std::vector<std::string> all = {marker};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name = std::string(*entry).substr(0, std::string(*entry).find('='));
    const bool ours = absl::StartsWith(name, "GRADWIRE_") || name == kMarkerName;
    if (!ours && extra.count(name) == 0) all.push_back(*entry);
  }
  for (const auto& [name, value] : extra) all.push_back(absl::StrCat(name, "=", value));
  return all;
}

std::vector<char*> Pointers(std::vector<std::string>* strings) {
  std::vector<char*> pointers;
  for (std::string& string : *strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct Pipe {
  Pipe() {
    if (pipe2(fds, O_CLOEXEC) != 0) std::abort();
  }
  int fds[2];
};

// The state letter of /proc/PID/stat, or 'X' if there is no such process.
char StateOf(pid_t pid) {
  const std::string stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  const size_t name_end = stat.rfind(") ");
  return name_end == std::string::npos ? 'X' : stat[name_end + 2];
}

bool HasInEnvironment(pid_t pid, const std::string& marker) {
  const std::string all = ReadFile(absl::StrCat("/proc/", pid, "/environ"));
  for (const absl::string_view entry : absl::StrSplit(all, '\0')) {
    if (entry == marker) return true;
  }
  return false;
}

}  // namespace

std::unique_ptr<Process> Process::Start(absl::string_view program,
                                        const std::vector<std::string>& arguments,
                                        const Environment& extra) {
  const std::string path =
      absl::StrContains(program, "/") ? std::string(program) : ProgramPath(program);
  const std::string marker = NewMarker();
  std::vector<std::string> argv = {path};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  std::vector<std::string> env = MakeEnvironment(extra, marker);
  Pipe out, err;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.fds[1], 1);
  posix_spawn_file_actions_adddup2(&actions, err.fds[1], 2);
  pid_t pid = 0;
  const int failed = posix_spawn(&pid, path.c_str(), &actions, nullptr, Pointers(&argv).data(),
                                 Pointers(&env).data());
  posix_spawn_file_actions_destroy(&actions);
  close(out.fds[1]);
  close(err.fds[1]);
  if (failed != 0) {
    spdlog::critical("cannot start {}: error {}", path, failed);
    std::abort();
  }
  return std::unique_ptr<Process>(new Process(pid, marker, out.fds[0], err.fds[0]));
}

Process::Process(pid_t pid, std::string marker, int out_fd, int err_fd)
    : pid_(pid), marker_(std::move(marker)) {
  threads_.emplace_back([this, out_fd] { Read(out_fd, &out_); });
  threads_.emplace_back([this, err_fd] { Read(err_fd, &err_); });
  threads_.emplace_back([this] { AwaitEnd(); });
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
  for (std::thread& thread : threads_) thread.join();
}

void Process::Read(int fd, Stream* stream) {
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(fd, buffer, sizeof(buffer))) > 0) {
    MutexLock lock(&mutex_);
    stream->text.append(buffer, static_cast<size_t>(got));
    changed_.NotifyAll();
  }
  close(fd);
  MutexLock lock(&mutex_);
  stream->closed = true;
  changed_.NotifyAll();
}

// Reaps under the lock, so that Signal never hits another process of that id.
void Process::AwaitEnd() {
  siginfo_t info;
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0) continue;
  MutexLock lock(&mutex_);
  int status = 0;
  rusage usage = {};
  wait4(pid_, &status, 0, &usage);
  peak_memory_bytes_ = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  ended_ = true;
  changed_.NotifyAll();
}

uint64_t Process::peak_memory_bytes() const {
  MutexLock lock(&mutex_);
  return peak_memory_bytes_;
}

std::string Process::out() const {
  MutexLock lock(&mutex_);
  return out_.text;
}

std::string Process::err() const {
  MutexLock lock(&mutex_);
  return err_.text;
}

void Process::Signal(int signal) {
  MutexLock lock(&mutex_);
  if (!ended_) kill(pid_, signal);
}

absl::StatusOr<int> Process::Wait(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&mutex_);
  while (!ended_ || !out_.closed || !err_.closed) {
    if (absl::Now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(ended_ ? "ended, but its children hold its output" : "still running",
                       " after ", absl::FormatDuration(timeout), "; ", Tail()));
    }
    changed_.WaitWithDeadline(&mutex_, deadline);
  }
  return exit_code_;
}

absl::Status Process::WaitForOutput(absl::string_view text, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&mutex_);
  while (!absl::StrContains(out_.text, text) && !absl::StrContains(err_.text, text)) {
    if (out_.closed && err_.closed) {
      return absl::FailedPreconditionError(absl::StrCat("never wrote '", text, "'; ", Tail()));
    }
    if (absl::Now() >= deadline) {
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
    if (IsRunning(pid) && HasInEnvironment(pid, marker_)) found.push_back(pid);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string Process::Tail() const {
  const auto tail = [](const std::string& text) {
    constexpr size_t kBytes = 2000;
    return text.substr(text.size() - std::min(text.size(), kBytes));
  };
  return absl::StrCat("stdout: …", tail(out_.text), "\nstderr: …", tail(err_.text));
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
