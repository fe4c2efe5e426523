#include "common/base/signal_thread.h"

#include <signal.h>

#include <utility>

namespace gradwire {
namespace {

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

void BlockStopSignals() {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void BlockUserSignal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

SignalThread::SignalThread(std::function<void(int)> on_signal)
    : on_signal_(std::move(on_signal)), thread_([this] { Run(); }) {}

SignalThread::~SignalThread() {
  stopping_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

void SignalThread::Run() {
  sigset_t signals = StopSignals();
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  if (sigismember(&blocked, SIGUSR1) == 1) sigaddset(&signals, SIGUSR1);
  int signal = 0;
  while (sigwait(&signals, &signal) == 0 && !stopping_) {
    int none = 0;
    if (signal != SIGUSR1) received_.compare_exchange_strong(none, signal);
    on_signal_(signal);
  }
}

}  // namespace gradwire
