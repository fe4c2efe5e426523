#ifndef GRADWIRE_TESTS_SIMULATE_FIBER_H_
#define GRADWIRE_TESTS_SIMULATE_FIBER_H_

#include <ucontext.h>

#include <functional>

namespace gradwire::simulate {

// A function on a stack of its own that gives way where it would wait: how code that waits, such as
// the trainer's, runs beside others in one thread, in an order that the caller decides.
//
// Resume and Yield take turns. A fiber that has begun has to be resumed until it is done.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body until it yields, or is done.
  void Resume();
  // From within the body.
  void Yield();
  bool done() const { return done_; }
  bool running() const { return running_; }

 private:
  static void Enter(unsigned low, unsigned high);

  const std::function<void()> body_;
  void* const stack_;
  ucontext_t inside_;
  ucontext_t outside_;
  bool running_ = false;
  bool done_ = false;
};

}  // namespace gradwire::simulate

#endif  // GRADWIRE_TESTS_SIMULATE_FIBER_H_
