#include "tests/simulate/process.h"

#include <utility>

namespace gradwire::simulate {

void Process::Take(Event event) {
  if (!is_alive_) return;
  if (is_paused_) return kept_.push_back(std::move(event));
  event();
  after_();
}

void Process::Continue() {
  is_paused_ = false;
  while (!kept_.empty() && is_alive_ && !is_paused_) {
    const Event event = std::move(kept_.front());
    kept_.pop_front();
    event();
    after_();
  }
}

void Process::Kill() {
  is_alive_ = false;
  kept_.clear();
}

}  // namespace gradwire::simulate
