#ifndef GRADWIRE_TESTS_SIMULATE_PIPE_H_
#define GRADWIRE_TESTS_SIMULATE_PIPE_H_

#include <deque>
#include <memory>

#include "absl/time/time.h"
#include "tests/simulate/process.h"
#include "tests/simulate/scene.h"

namespace gradwire::simulate {

// One direction of a stream: what is sent comes to the process at its end in the same order, each
// after a while of its own. Different pipes overtake each other.
class Pipe {
 public:
  // `to` outlives all events of the scene.
  Pipe(Scene* scene, Process* to);

  void Send(Process::Event arrival);
  // What has not arrived yet, and what is sent, does not arrive before this.
  void Hold(absl::Time until);
  // The same, for ever.
  void Cut();
  // Messages take up to so much longer from now on.
  void Slow(absl::Duration by);

 private:
  struct State {
    std::deque<Process::Event> under_way;
    absl::Time held_until = absl::InfinitePast();
    absl::Time last_arrival = absl::InfinitePast();
    bool is_cut = false;
  };
  // The first that is under way.
  static void Arrive(Scene* scene, Process* to, const std::shared_ptr<State>& state);

  Scene* const scene_;
  Process* const to_;
  const absl::Duration latency_;
  absl::Duration jitter_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();  // outlives the pipe in events
};

}  // namespace gradwire::simulate

#endif  // GRADWIRE_TESTS_SIMULATE_PIPE_H_
