#include "cli/bench/job_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"

namespace gradwire {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(50);
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
  std::string out;
  std::string err;
  Process* process = nullptr;
};

JobGroup::JobGroup(std::function<bool()> stopped) : stopped_(std::move(stopped)) {}

JobGroup::~JobGroup() = default;

absl::Status JobGroup::Start(const Job& job) {
  auto running = std::make_unique<Running>(Running{job.name, job.serves, "", "", nullptr});
  const absl::StatusOr<Process*> process = processes_.Start(
      job.command,
      [out = &running->out](absl::string_view bytes) { out->append(bytes.data(), bytes.size()); },
      [err = &running->err](absl::string_view bytes) { err->append(bytes.data(), bytes.size()); });
  if (!process.ok()) return process.status();
  running->process = *process;
  jobs_.push_back(std::move(running));
  return absl::OkStatus();
}

absl::Status JobGroup::RunUntil(const std::function<bool()>& ready, absl::Time deadline) {
  while (!ready()) {
    if (stopped_()) return absl::CancelledError("stopped");
    if (AnyFailed()) {
      const absl::Time until = SteadyNow() + kTimeToSayWhy;
      while (SteadyNow() < until && !WorkersEnded()) processes_.Wait(SteadyNow() + kPollInterval);
      return absl::InternalError(Failures());
    }
    if (SteadyNow() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat("not done in time: ", StillRunning()));
    }
    processes_.Wait(SteadyNow() + kPollInterval);
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
                     [](const auto& job) { return job->serves || job->process->ended(); });
}

bool JobGroup::AnyFailed() const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [](const auto& job) { return job->process->failed(); });
}

std::string JobGroup::Failures() const {
  std::vector<std::string> failures;
  for (const auto& job : jobs_) {
    if (!job->process->failed()) continue;
    const std::string why = Tail(job->err);
    failures.push_back(absl::StrCat(job->name, " ", DescribeEnd(job->process->status()),
                                    why.empty() ? "" : ":\n  ", why));
  }
  return absl::StrJoin(failures, "\n");
}

std::string JobGroup::StillRunning() const {
  std::vector<std::string> names;
  for (const auto& job : jobs_) {
    if (!job->process->ended()) names.push_back(job->name);
  }
  return names.empty() ? "nothing runs any more"
                       : absl::StrCat(absl::StrJoin(names, ", "), " still running");
}

void JobGroup::EndServers() {
  const absl::Time now = SteadyNow();
  for (const auto& job : jobs_) {
    if (job->serves) job->process->EndAt(now, now + kTimeToEnd);
  }
  while (processes_.AnyRuns()) processes_.Wait(absl::InfiniteFuture());
}

absl::StatusOr<std::string> RunJob(const Job& job, absl::Duration timeout,
                                   const std::function<bool()>& stopped) {
  JobGroup group(stopped);
  absl::Status status = group.Start(job);
  if (!status.ok()) return status;
  absl::StatusOr<std::vector<std::string>> outputs = group.Finish(SteadyNow() + timeout);
  if (!outputs.ok()) return outputs.status();
  return std::move(outputs->front());
}

}  // namespace gradwire
