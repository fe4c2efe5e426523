#include "cli/launch/supervisor.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/process/line_splitter.h"

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
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  return signals;
}

}  // namespace

// A member, once started.
struct Supervisor::Running {
  Running(const Member& member, Terminal* terminal)
      : name(member.name),
        serves(member.serves),
        linger(member.linger),
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
  LineSplitter out;
  LineSplitter err;
  Process* process = nullptr;
};

Supervisor::Supervisor(Terminal* terminal) : terminal_(terminal) {
  const sigset_t signals = HandledSignals();
  sigprocmask(SIG_BLOCK, &signals, &old_mask_);
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &old_pipe_action_);
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  processes_.WakeOn(signal_fd_);
}

Supervisor::~Supervisor() {
  close(signal_fd_);
  sigaction(SIGPIPE, &old_pipe_action_, nullptr);
  sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
}

absl::Status Supervisor::Start(const Member& member) {
  auto running = std::make_unique<Running>(member, terminal_);
  const absl::StatusOr<Process*> process = processes_.Start(
      member.command, [to = &running->out](absl::string_view bytes) { to->Feed(bytes); },
      [to = &running->err](absl::string_view bytes) { to->Feed(bytes); },
      [this, ended = running.get()] { OnEnd(ended); });
  if (!process.ok()) return process.status();
  running->process = *process;
  members_.push_back(std::move(running));
  return absl::OkStatus();
}

bool Supervisor::RunUntil(const std::function<bool()>& ready, absl::Duration timeout) {
  const absl::Time deadline = SteadyNow() + timeout;
  while (!ready()) {
    if (ending() || !processes_.AnyRuns() || SteadyNow() >= deadline) return false;
    HandleEvents(std::min(deadline, SteadyNow() + kPollInterval));
  }
  return !ending();
}

int Supervisor::Run() {
  all_started_ = true;
  WindUp();  // in case all workers have ended already
  while (processes_.AnyRuns()) HandleEvents(absl::InfiniteFuture());
  terminal_->SetBar("");
  return exit_code_;
}

void Supervisor::HandleEvents(absl::Time until) {
  processes_.Wait(until);
  signalfd_siginfo info;
  while (read(signal_fd_, &info, sizeof(info)) == sizeof(info)) {
    StopBySignal(static_cast<int>(info.ssi_signo));
  }
  if (terminal_->broken() && !ending()) StopBySignal(SIGPIPE);
}

void Supervisor::OnEnd(Running* member) {
  member->out.Flush();
  member->err.Flush();
  if (member->process->failed()) {
    const int status = member->process->status();
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
  const absl::Time now = SteadyNow();
  for (const auto& member : members_) {
    member->process->EndAt(now + until_terminate + member->linger,
                           now + until_kill + member->linger);
  }
}

void Supervisor::StopBySignal(int signal) {
  const bool again = std::exchange(stopped_, true);
  if (!again && !ending() && (!winding_up_ || signal == SIGPIPE)) {
    cause_ = absl::StrCat("stopped by signal ", signal, " (", strsignal(signal), ")");
    exit_code_ = 128 + signal;
  }
  for (const auto& member : members_) {
    member->process->Signal(again ? SIGKILL : signal == SIGINT ? SIGINT : SIGTERM);
    member->process->EndAt(absl::InfiniteFuture(), SteadyNow() + kTimeToStop);
  }
}

void Supervisor::WindUp() {
  const bool working = std::any_of(members_.begin(), members_.end(), [](const auto& member) {
    return !member->serves && !member->process->ended();
  });
  if (working || !all_started_ || ending() || winding_up_) return;
  winding_up_ = true;
  EndAfter(kTimeToWindUp, 2 * kTimeToWindUp);
}

}  // namespace gradwire
