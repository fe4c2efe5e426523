#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_LEASE_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_LEASE_H_

#include <cstddef>
#include <deque>
#include <optional>

#include "absl/time/time.h"

namespace gradwire {

// How often Membership::OnTick is to be called.
inline constexpr absl::Duration kTick = absl::Milliseconds(100);

// How long the coordinator itself stood still (stopped, or its host asleep) if there is such a
// `gap` between two ticks: all of it if it is longer than a second, else zero. No waiting of others
// counts for so long.
inline absl::Duration StoodStill(absl::Duration gap) {
  return gap > absl::Seconds(1) ? gap : absl::ZeroDuration();
}

// The latest of some durations, at most so many.
class RecentDurations {
 public:
  explicit RecentDurations(size_t most) : most_(most) {}

  void Add(absl::Duration duration);
  size_t size() const { return durations_.size(); }
  // The least that so many of a hundred do not exceed; zero of none.
  absl::Duration Percentile(int percent) const;

 private:
  const size_t most_;
  std::deque<absl::Duration> durations_;
};

// When heartbeats of one member came: what it is used to. A member whose host is busy, or whose
// link is slow, has longer gaps now and then long before it is silent for good.
class HeartbeatGaps {
 public:
  void OnHeartbeat(absl::Time now);
  // The coordinator itself stood still for so long, so no gap is longer for it.
  void OnPause(absl::Duration paused, absl::Time now);
  // The 99th percentile of the latest minute's; none of a member that is not known well enough yet.
  std::optional<absl::Duration> Usual() const;

 private:
  static constexpr size_t kEnough = 20;
  static constexpr size_t kMost = 240;

  std::optional<absl::Time> last_;
  RecentDurations gaps_{kMost};
};

// How much later than planned the coordinator does what it does: it hears all members as late.
class TickLag {
 public:
  void OnTick(absl::Duration since_last) { lags_.Add(since_last - kTick); }
  // The longest of the latest ten seconds; never below zero.
  absl::Duration longest() const;

 private:
  RecentDurations lags_{100};
};

struct LeaseLimits {
  absl::Duration least = absl::Seconds(1);
  absl::Duration most = absl::Seconds(10);
};

// How long a member may be silent before it is lost:
//
//   max(least, 8 x its usual gap, 4 x the coordinator's lag), but no more than `most`
//
// and `most` as long as its usual gap is not known. A member that is heard regularly is missed
// soon; one that is often late, or heard by a coordinator that is late itself, has more time.
absl::Duration LeaseFor(const HeartbeatGaps& gaps, const TickLag& lag, const LeaseLimits& limits);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_LEASE_H_
