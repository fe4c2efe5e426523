#ifndef GRADWIRE_TESTS_SIMULATE_EVENTS_H_
#define GRADWIRE_TESTS_SIMULATE_EVENTS_H_

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "absl/time/time.h"

namespace gradwire::simulate {

// Virtual time, and what happens in it: by time, and at one time in the order in which it was asked
// for. Nothing waits for a real clock.
class Events {
 public:
  using Event = std::function<void()>;

  absl::Time now() const { return now_; }
  uint64_t count() const { return count_; }

  void At(absl::Time time, Event event);
  void After(absl::Duration delay, Event event) { At(now_ + delay, std::move(event)); }
  // The next event; false if there is none.
  bool RunNext();

 private:
  struct Entry {
    absl::Time time;
    uint64_t number;
    Event event;
  };
  struct IsLater {
    bool operator()(const Entry& a, const Entry& b) const {
      return a.time != b.time ? a.time > b.time : a.number > b.number;
    }
  };

  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  uint64_t asked_ = 0;
  uint64_t count_ = 0;
  std::priority_queue<Entry, std::vector<Entry>, IsLater> queue_;
};

}  // namespace gradwire::simulate

#endif  // GRADWIRE_TESTS_SIMULATE_EVENTS_H_
