#include "cli/bench/job_group.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

namespace gradwire {
namespace {

constexpr int kPollMilliseconds = 50;
constexpr absl::Duration kTimeToSayWhy = absl::Seconds(1);
constexpr absl::Duration kTimeToEnd = absl::Seconds(3);
constexpr size_t kShownLines = 8;

// The last lines, in one.
std::string Tail(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipWhitespace());
  if (lines.size() > kShownLines) lines.erase(lines.begin(), lines.end() - kShownLines);
  return absl::StrJoin(lines, "\n  ");
}

}  // namespace

struct JobGroup::Running {
  std::string name;
  bool serves = false;
  bool told_to_end = false;
  std::unique_ptr<Process> process;
  std::string out;
  std::string err;
  bool out_open = true;
  bool err_open = true;

  bool ended() const { return process->reaped() && !out_open && !err_open; }
  bool failed() const { return process->reaped() && process->status() != 0 && !told_to_end; }

  static void Drain(int fd, std::string* text, bool* open) {
    std::array<char, 65536> buffer;
    while (*open) {
      const ssize_t got = read(fd, buffer.data(), buffer.size());
      if (got > 0) {
        text->append(buffer.data(), static_cast<size_t>(got));
      } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        *open = false;
      } else if (errno == EAGAIN) {
        return;
      }
    }
  }

  void Step() {
    process->Reap();
    Drain(process->out_fd(), &out, &out_open);
    Drain(process->err_fd(), &err, &err_open);
    // A grandchild may hold the pipes for longer.
    if (process->reaped()) out_open = err_open = false;
  }
};

JobGroup::JobGroup(std::function<bool()> stopped) : stopped_(std::move(stopped)) {}

JobGroup::~JobGroup() = default;

absl::Status JobGroup::Start(const Job& job) {
  absl::StatusOr<std::unique_ptr<Process>> process = Process::Start(job.command);
  if (!process.ok()) return process.status();
  jobs_.push_back(std::make_unique<Running>());
  jobs_.back()->name = job.name;
  jobs_.back()->serves = job.serves;
  jobs_.back()->process = *std::move(process);
  return absl::OkStatus();
}

void JobGroup::Step() {
  std::vector<pollfd> fds;
  for (const auto& job : jobs_) {
    // A descriptor below 0 is passed over.
    fds.push_back({job->out_open ? job->process->out_fd() : -1, POLLIN, 0});
    fds.push_back({job->err_open ? job->process->err_fd() : -1, POLLIN, 0});
  }
  poll(fds.data(), fds.size(), kPollMilliseconds);
  for (const auto& job : jobs_) job->Step();
}

absl::Status JobGroup::RunUntil(const std::function<bool()>& ready, absl::Time deadline) {
  while (!ready()) {
    if (stopped_()) return absl::CancelledError("stopped");
    if (AnyFailed()) {
      const absl::Time until = absl::Now() + kTimeToSayWhy;
      while (absl::Now() < until && !WorkersEnded()) Step();
      return absl::InternalError(Failures());
    }
    if (absl::Now() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat("not done in time: ", StillRunning()));
    }
    Step();
  }
  return AnyFailed() ? absl::InternalError(Failures()) : absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> JobGroup::Finish(absl::Time deadline,
                                                          const std::function<void()>& tick) {
  absl::Status status = RunUntil(
      [&] {
        tick();
        return WorkersEnded();
      },
      deadline);
  if (!status.ok()) return status;
  EndServers();
  std::vector<std::string> outputs;
  for (const auto& job : jobs_) {
    if (!job->serves) outputs.push_back(std::move(job->out));
  }
  return outputs;
}

pid_t JobGroup::pid(size_t index) const { return jobs_[index]->process->pid(); }

bool JobGroup::WorkersEnded() const {
  return std::all_of(jobs_.begin(), jobs_.end(),
                     [](const auto& job) { return job->serves || job->ended(); });
}

bool JobGroup::AnyFailed() const {
  return std::any_of(jobs_.begin(), jobs_.end(), [](const auto& job) { return job->failed(); });
}

std::string JobGroup::Failures() const {
  std::vector<std::string> failures;
  for (const auto& job : jobs_) {
    if (!job->failed()) continue;
    const std::string why = Tail(job->err);
    failures.push_back(absl::StrCat(job->name, " ", DescribeEnd(job->process->status()),
                                    why.empty() ? "" : ":\n  ", why));
  }
  return absl::StrJoin(failures, "\n");
}

std::string JobGroup::StillRunning() const {
  std::vector<std::string> names;
  for (const auto& job : jobs_) {
    if (!job->process->reaped()) names.push_back(job->name);
  }
  return names.empty() ? "nothing runs any more"
                       : absl::StrCat(absl::StrJoin(names, ", "), " still running");
}

void JobGroup::EndServers() {
  for (const auto& job : jobs_) {
    if (!job->serves) continue;
    job->told_to_end = true;
    job->process->Signal(SIGTERM);
  }
  const absl::Time until = absl::Now() + kTimeToEnd;
  auto all_ended = [&] {
    return std::all_of(jobs_.begin(), jobs_.end(), [](const auto& job) { return job->ended(); });
  };
  while (!all_ended() && absl::Now() < until) Step();
}

absl::StatusOr<std::string> RunJob(const Job& job, absl::Duration timeout,
                                   const std::function<bool()>& stopped) {
  JobGroup group(stopped);
  absl::Status status = group.Start(job);
  if (!status.ok()) return status;
  absl::StatusOr<std::vector<std::string>> outputs = group.Finish(absl::Now() + timeout);
  if (!outputs.ok()) return outputs.status();
  return std::move(outputs->front());
}

}  // namespace gradwire
