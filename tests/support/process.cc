#include "tests/support/process.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/process/process_set.h"
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

}  // namespace

std::unique_ptr<Process> Process::Start(absl::string_view program,
                                        const std::vector<std::string>& arguments,
                                        const Environment& extra) {
  Command command;
  command.argv = {absl::StrContains(program, "/") ? std::string(program) : ProgramPath(program)};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  command.environment = extra;
  command.environment.merge(WithoutOurs(CurrentEnvironment()));
  command.leaves_others = true;  // the destructor looks for them
  auto process = absl::WrapUnique(new Process(NewMarker()));
  command.environment[kMarkerName] = process->marker_;
  std::promise<absl::StatusOr<gradwire::Process*>> promise;
  auto started = promise.get_future();
  process->thread_ = std::thread(&Process::Run, process.get(), command, std::move(promise));
  const absl::StatusOr<gradwire::Process*> running = started.get();
  if (!running.ok()) {
    spdlog::critical("{}", std::string(running.status().message()));
    std::abort();
  }
  process->pid_ = (*running)->pid();
  process->end_fd_ = (*running)->end_fd();
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

void Process::Run(const Command& command,
                  std::promise<absl::StatusOr<gradwire::Process*>> started) {
  ProcessSet set;
  const auto process = set.Start(command, AppendTo(&out_), AppendTo(&err_));
  started.set_value(process);
  if (!process.ok()) return;
  while (!(*process)->ended() || (*process)->output_open()) {
    set.Wait(absl::InfiniteFuture());
    MutexLock lock(&mutex_);
    ended_ = (*process)->ended();
    output_open_ = (*process)->output_open();
    exit_code_ = ExitCodeOf((*process)->status());
    peak_memory_bytes_ = (*process)->peak_memory_bytes();
    changed_.NotifyAll();
  }
}

gradwire::Process::OnBytes Process::AppendTo(std::string* text) {
  return [this, text](absl::string_view bytes) {
    MutexLock lock(&mutex_);
    text->append(bytes.data(), bytes.size());
  };
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
