#ifndef GRADWIRE_COMMON_BASE_SIGNAL_THREAD_H_
#define GRADWIRE_COMMON_BASE_SIGNAL_THREAD_H_

#include <atomic>
#include <functional>
#include <thread>

namespace gradwire {

// Blocks SIGINT and SIGTERM in the calling thread and in all threads that it starts afterwards,
// until a SignalThread takes them. Must be the first line of a main().
void BlockStopSignals();
// The same for SIGUSR1, in a program that gives it a meaning. Before the SignalThread.
void BlockUserSignal();

// Turns SIGINT and SIGTERM into a call on an ordinary thread, which, unlike a signal handler, may
// do anything. Every thread of the process must have them blocked.
class SignalThread {
 public:
  // Calls `on_signal` with the signal's number, once per signal, one at a time; also for SIGUSR1 if
  // it is blocked.
  explicit SignalThread(std::function<void(int)> on_signal);
  // Waits for a running call. The signals stay blocked.
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

  // Returns the first signal to stop that came, or 0. Any thread.
  int received() const { return received_; }

 private:
  void Run();

  const std::function<void(int)> on_signal_;
  std::atomic<int> received_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_SIGNAL_THREAD_H_
