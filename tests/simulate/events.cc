#include "tests/simulate/events.h"

#include <algorithm>
#include <utility>

namespace gradwire::simulate {

void Events::At(absl::Time time, Event event) {
  queue_.push({std::max(time, now_), asked_++, std::move(event)});
}

bool Events::RunNext() {
  if (queue_.empty()) return false;
  const Event event = queue_.top().event;
  now_ = queue_.top().time;
  queue_.pop();
  ++count_;
  event();
  return true;
}

}  // namespace gradwire::simulate
