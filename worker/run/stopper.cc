#include "worker/run/stopper.h"

#include <spdlog/spdlog.h>

#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "common/base/clock.h"

namespace gradwire {
namespace {

constexpr absl::Duration kGrace = absl::Seconds(1);
constexpr absl::Duration kCutGrace = absl::Milliseconds(400);

}  // namespace

Stopper::Stopper(OnCut on_cut) : on_cut_(std::move(on_cut)), guard_([this] { Guard(); }) {}

Stopper::~Stopper() {
  {
    MutexLock lock(&mutex_);
    ended_ = true;
    changed_.NotifyAll();
  }
  guard_.join();
}

void Stopper::Request(absl::Status reason, int exit_code) {
  MutexLock lock(&mutex_);
  if (requested_) return;
  reason_ = std::move(reason);
  exit_code_ = exit_code;
  requested_ = true;
  changed_.NotifyAll();
}

absl::Status Stopper::reason() const {
  MutexLock lock(&mutex_);
  return reason_;
}

int Stopper::exit_code() const {
  MutexLock lock(&mutex_);
  return exit_code_;
}

void Stopper::Guard() {
  MutexLock lock(&mutex_);
  while (!requested_ && !ended_) changed_.Wait(&mutex_);
  const absl::Time deadline = SteadyNow() + kGrace;
  while (!ended_) {
    if (!changed_.WaitWithDeadline(&mutex_, deadline)) continue;
    if (ended_) return;
    spdlog::error("{}; a computation under way was cut off", std::string(reason_.message()));
    spdlog::default_logger()->flush();
    RunOnCut(reason_, exit_code_);
    std::_Exit(exit_code_);
  }
}

// It may wait for a lock of the computation that was cut off, or for a disk.
void Stopper::RunOnCut(const absl::Status& reason, int exit_code) const {
  if (!on_cut_) return;
  auto done = std::make_shared<std::promise<void>>();
  const std::future<void> is_done = done->get_future();
  std::thread([on_cut = on_cut_, reason, exit_code, done] {
    on_cut(reason, exit_code);
    done->set_value();
  }).detach();
  is_done.wait_for(absl::ToChronoMilliseconds(kCutGrace));
}

}  // namespace gradwire
