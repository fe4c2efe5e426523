#include "tests/simulate/pipe.h"

#include <algorithm>
#include <utility>

namespace gradwire::simulate {

Pipe::Pipe(Scene* scene, Process* to)
    : scene_(scene),
      to_(to),
      latency_(scene->random.Between(absl::Microseconds(20), absl::Milliseconds(2))),
      jitter_(scene->random.Between(absl::ZeroDuration(), absl::Milliseconds(3))) {}

void Pipe::Send(Process::Event arrival) {
  const absl::Time due =
      scene_->events.now() + latency_ + scene_->random.Between(absl::ZeroDuration(), jitter_);
  state_->last_arrival = std::max({state_->last_arrival, due, state_->held_until});
  state_->under_way.push_back(std::move(arrival));
  scene_->events.At(state_->last_arrival,
                    [scene = scene_, to = to_, state = state_] { Arrive(scene, to, state); });
}

void Pipe::Arrive(Scene* scene, Process* to, const std::shared_ptr<State>& state) {
  if (state->is_cut) return;
  if (state->held_until > scene->events.now()) {
    return scene->events.At(state->held_until, [=] { Arrive(scene, to, state); });
  }
  const Process::Event arrival = std::move(state->under_way.front());
  state->under_way.pop_front();
  to->Take(arrival);
}

void Pipe::Hold(absl::Time until) { state_->held_until = std::max(state_->held_until, until); }

void Pipe::Cut() { state_->is_cut = true; }

void Pipe::Slow(absl::Duration by) { jitter_ += by; }

}  // namespace gradwire::simulate
