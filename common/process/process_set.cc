#include "common/process/process_set.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"

namespace gradwire {
namespace {

// What an event is about: a process's number and one of these.
constexpr uint64_t kEnd = 2;  // 0 and 1 are its outputs
constexpr uint64_t kWhats = 3;
constexpr uint64_t kWake = UINT64_MAX;

int MillisecondsUntil(absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) return -1;
  const absl::Duration left = std::max(deadline - SteadyNow(), absl::ZeroDuration());
  return static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
}

}  // namespace

ProcessSet::ProcessSet() : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)) {}

ProcessSet::~ProcessSet() { close(epoll_fd_); }

absl::StatusOr<Process*> ProcessSet::Start(const Command& command, Process::OnBytes on_out,
                                           Process::OnBytes on_err, std::function<void()> on_end) {
  auto process = Process::Start(command, std::move(on_out), std::move(on_err));
  if (!process.ok()) return process.status();
  const uint64_t first = running_.size() * kWhats;
  if (!Watch((*process)->output_fd(0), first) || !Watch((*process)->output_fd(1), first + 1) ||
      !Watch((*process)->end_fd(), first + kEnd)) {
    return absl::UnavailableError(
        absl::StrCat("cannot watch '", command.argv[0], "': ", std::strerror(errno)));
  }
  guard_.Add((*process)->pid());
  running_.push_back({*std::move(process), std::move(on_end)});
  return running_.back().process.get();
}

void ProcessSet::Wait(absl::Time until) {
  std::array<epoll_event, 64> events;
  // The kernel lists what is ready in the order in which it became so.
  const int count = epoll_wait(epoll_fd_, events.data(), events.size(),
                               MillisecondsUntil(std::min(until, NextSignal())));
  for (int i = 0; i < count; ++i) Handle(events[i].data.u64);
  const absl::Time now = SteadyNow();
  for (const Running& running : running_) {
    if (now >= running.process->next_signal()) running.process->SendDue(now);
  }
}

void ProcessSet::WakeOn(int fd) { Watch(fd, kWake); }

bool ProcessSet::AnyRuns() const {
  return std::any_of(running_.begin(), running_.end(),
                     [](const Running& running) { return !running.process->ended(); });
}

bool ProcessSet::Watch(int fd, uint64_t what) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = what;
  return epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0;
}

void ProcessSet::Handle(uint64_t what) {
  if (what == kWake) return;
  Running& running = running_[what / kWhats];
  const uint64_t part = what % kWhats;
  if (part == kEnd) {
    End(&running);
  } else if (!running.process->Read(static_cast<int>(part))) {
    epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, running.process->output_fd(static_cast<int>(part)),
              nullptr);
  }
}

void ProcessSet::End(Running* running) {
  // Removed first: its id may be another's once it is reaped.
  guard_.Remove(running->process->pid());
  running->process->Reap();
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, running->process->end_fd(), nullptr);
  running->on_end();
}

absl::Time ProcessSet::NextSignal() const {
  absl::Time next = absl::InfiniteFuture();
  for (const Running& running : running_) next = std::min(next, running.process->next_signal());
  return next;
}

}  // namespace gradwire
