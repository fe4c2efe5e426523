#ifndef GRADWIRE_TESTS_SIMULATE_PROCESS_H_
#define GRADWIRE_TESTS_SIMULATE_PROCESS_H_

#include <deque>
#include <functional>
#include <utility>

namespace gradwire::simulate {

// A process as its events see it: it takes them, keeps them while it is stopped, or is gone.
class Process {
 public:
  using Event = std::function<void()>;

  // `after` follows each event that it takes.
  explicit Process(Event after = [] {}) : after_(std::move(after)) {}

  void Take(Event event);
  void Pause() { is_paused_ = true; }
  // What came meanwhile is taken now, in its order.
  void Continue();
  void Kill();

  bool is_alive() const { return is_alive_; }
  bool is_paused() const { return is_paused_; }

 private:
  const Event after_;
  bool is_alive_ = true;
  bool is_paused_ = false;
  std::deque<Event> kept_;
};

}  // namespace gradwire::simulate

#endif  // GRADWIRE_TESTS_SIMULATE_PROCESS_H_
