#include "cli/launch/supervisor.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(10);
constexpr absl::Duration kTimeToSayWhy = absl::Milliseconds(300);
constexpr absl::Duration kTimeToFail = absl::Seconds(2);
constexpr absl::Duration kTimeToStop = absl::Milliseconds(1800);
constexpr absl::Duration kTimeToWindUp = absl::Seconds(2);

sigset_t HandledSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&signals, signal);
  return signals;
}

int MillisecondsUntil(absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) return -1;
  const absl::Duration left = std::max(deadline - absl::Now(), absl::ZeroDuration());
  return static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
}

}  // namespace

// A member, once started.
struct Supervisor::Running {
  Running(const Member& member, std::unique_ptr<Process> started, Terminal* terminal)
      : name(member.name),
        serves(member.serves),
        linger(member.linger),
        process(std::move(started)),
        out(PrintTo(terminal, Output::kOut), {}),
        err(PrintTo(terminal, Output::kErr),
            member.has_bar ? [terminal](absl::string_view text) { terminal->SetBar(text); }
                           : LineSplitter::OnText()) {}

  LineSplitter::OnText PrintTo(Terminal* terminal, Output output) const {
    return [prefix = absl::StrCat("[", name, "] "), terminal, output](absl::string_view line) {
      terminal->PrintLine(output, absl::StrCat(prefix, line));
    };
  }

  const std::string name;
  const bool serves;
  const absl::Duration linger;
  const std::unique_ptr<Process> process;
  LineSplitter out;
  LineSplitter err;
  bool out_open = true;
  bool err_open = true;
  bool told_to_end = false;  // it has had a signal: how it ends is no news
  absl::Time terminate_at = absl::InfiniteFuture();
  absl::Time kill_at = absl::InfiniteFuture();
};

Supervisor::Supervisor(Terminal* terminal) : terminal_(terminal) {
  const sigset_t signals = HandledSignals();
  sigprocmask(SIG_BLOCK, &signals, &old_mask_);
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &old_pipe_action_);
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

Supervisor::~Supervisor() {
  members_.clear();
  close(signal_fd_);
  sigaction(SIGPIPE, &old_pipe_action_, nullptr);
  sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
}

absl::Status Supervisor::Start(const Member& member) {
  absl::StatusOr<std::unique_ptr<Process>> process = Process::Start(member.command);
  if (!process.ok()) return process.status();
  members_.push_back(std::make_unique<Running>(member, *std::move(process), terminal_));
  return absl::OkStatus();
}

bool Supervisor::RunUntil(const std::function<bool()>& ready, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (!ready()) {
    if (ending() || !AnyRuns() || absl::Now() >= deadline) return false;
    HandleEvents(std::min(deadline, absl::Now() + kPollInterval));
  }
  return !ending();
}

int Supervisor::Run() {
  all_started_ = true;
  WindUp();  // in case all workers have ended already
  while (AnyRuns()) HandleEvents(absl::InfiniteFuture());
  terminal_->SetBar("");
  return exit_code_;
}

bool Supervisor::AnyRuns() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const auto& member) { return !member->process->reaped(); });
}

void Supervisor::HandleEvents(absl::Time until) {
  std::vector<pollfd> fds = {{signal_fd_, POLLIN, 0}};
  for (const auto& member : members_) {
    // A descriptor below 0 is passed over.
    fds.push_back({member->out_open ? member->process->out_fd() : -1, POLLIN, 0});
    fds.push_back({member->err_open ? member->process->err_fd() : -1, POLLIN, 0});
  }
  poll(fds.data(), fds.size(), MillisecondsUntil(std::min(until, NextDeadline())));
  for (size_t i = 0; i < members_.size(); ++i) {
    if (fds[2 * i + 1].revents != 0 || fds[2 * i + 2].revents != 0) Read(members_[i].get(), false);
  }
  signalfd_siginfo info;
  while (read(signal_fd_, &info, sizeof(info)) == sizeof(info)) {
    HandleSignal(static_cast<int>(info.ssi_signo), static_cast<pid_t>(info.ssi_pid));
  }
  if (terminal_->broken() && !ending()) StopBySignal(SIGPIPE);
  CheckDeadlines();
}

void Supervisor::HandleSignal(int signal, pid_t sender) {
  if (signal == SIGCHLD) {
    ReapAll(sender);
  } else {
    StopBySignal(signal);
  }
}

void Supervisor::Read(Running* member, bool to_end) {
  std::array<char, 65536> buffer;
  auto read_one = [&](int fd, bool* open, LineSplitter* lines) {
    ssize_t got = 0;
    do {
      got = *open ? read(fd, buffer.data(), buffer.size()) : 0;
      if (got > 0) lines->Feed(absl::string_view(buffer.data(), got));
    } while (got > 0 && to_end);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) *open = false;
    if (to_end || !*open) lines->Flush();
  };
  read_one(member->process->out_fd(), &member->out_open, &member->out);
  read_one(member->process->err_fd(), &member->err_open, &member->err);
}

void Supervisor::ReapAll(pid_t first) {
  // Signals of children that end together may be merged into the first one's.
  std::vector<Running*> order;
  for (const auto& member : members_) order.push_back(member.get());
  std::stable_partition(order.begin(), order.end(),
                        [first](const Running* member) { return member->process->pid() == first; });
  for (Running* member : order) {
    if (!member->process->reaped() && member->process->Reap()) OnEnd(member);
  }
}

void Supervisor::OnEnd(Running* member) {
  Read(member, true);
  member->out_open = member->err_open = false;
  const int status = member->process->status();
  if (!ending() && !member->told_to_end && status != 0) {
    Fail(ExitCodeOf(status), absl::StrCat(member->name, " ", DescribeEnd(status)));
  }
  WindUp();
}

void Supervisor::Fail(int exit_code, std::string cause) {
  if (ending()) return;
  cause_ = std::move(cause);
  exit_code_ = exit_code;
  EndAfter(kTimeToSayWhy, kTimeToFail);
}

void Supervisor::EndAfter(absl::Duration until_terminate, absl::Duration until_kill) {
  const absl::Time now = absl::Now();
  for (const auto& member : members_) {
    member->terminate_at = now + until_terminate + member->linger;
    member->kill_at = now + until_kill + member->linger;
  }
}

void Supervisor::StopBySignal(int signal) {
  if (std::exchange(stopped_, true)) {
    SignalAll(SIGKILL);
    return;
  }
  if (!ending() && (!winding_up_ || signal == SIGPIPE)) {
    cause_ = absl::StrCat("stopped by signal ", signal, " (", strsignal(signal), ")");
    exit_code_ = 128 + signal;
  }
  SignalAll(signal == SIGINT ? SIGINT : SIGTERM);
  for (const auto& member : members_) {
    member->terminate_at = absl::InfiniteFuture();
    member->kill_at = std::min(member->kill_at, absl::Now() + kTimeToStop);
  }
}

void Supervisor::WindUp() {
  const bool working = std::any_of(members_.begin(), members_.end(), [](const auto& member) {
    return !member->serves && !member->process->reaped();
  });
  if (working || !all_started_ || ending() || winding_up_) return;
  winding_up_ = true;
  EndAfter(kTimeToWindUp, 2 * kTimeToWindUp);
}

absl::Time Supervisor::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& member : members_) {
    if (member->process->reaped()) continue;
    next = std::min({next, member->terminate_at, member->kill_at});
  }
  return next;
}

void Supervisor::CheckDeadlines() {
  const absl::Time now = absl::Now();
  for (const auto& member : members_) {
    if (now >= member->terminate_at) {
      member->process->Signal(SIGTERM);
      member->told_to_end = true;
      member->terminate_at = absl::InfiniteFuture();
    }
    if (now >= member->kill_at) {
      member->process->Signal(SIGKILL);
      member->kill_at = absl::InfiniteFuture();
    }
  }
}

void Supervisor::SignalAll(int signal) {
  for (const auto& member : members_) {
    member->process->Signal(signal);
    member->told_to_end = true;
  }
}

}  // namespace gradwire
