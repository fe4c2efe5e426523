#ifndef GRADWIRE_COMMON_BASE_SIGNAL_THREAD_H_
#define GRADWIRE_COMMON_BASE_SIGNAL_THREAD_H_

#include <atomic>
#include <functional>
#include <thread>

namespace gradwire {

// Blocks SIGINT and SIGTERM in the calling thread and all that it starts from
// then on; they wait until a SignalThread takes them. First line of a main().
void BlockStopSignals();

// Turns SIGINT and SIGTERM into a call on an ordinary thread, where everything
// is allowed (in a signal handler hardly anything is). Every thread of the
// process must have them blocked.
class SignalThread {
 public:
  // `on_signal` gets the signal's number, once per signal, one at a time.
  explicit SignalThread(std::function<void(int)> on_signal);
  // Waits for a call under way. The signals stay blocked.
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

  // The first signal that came, or 0. Any thread.
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
