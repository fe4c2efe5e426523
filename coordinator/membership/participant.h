#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_PARTICIPANT_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_PARTICIPANT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/wire/layout.h"
#include "coordinator/membership/assignment.h"
#include "gradwire/v1/membership.pb.h"

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

// Bytes of what members say, where people read it.
constexpr size_t kMostCause = 1000;

// One stream of Membership.Session; numbers are never used twice.
using SessionId = StrongInt<struct SessionIdTag, uint64_t>;

enum class Standing { kRunning, kFinished, kLost };

// A process that was let in: a worker, or a separate aggregator, which carries no ranks but
// a share of the sums.
struct Participant {
  std::optional<SessionId> session;  // none once it has ended
  Incarnation incarnation;
  std::string address;    // "host:port"
  absl::Time last_heard;  // by any message
  HeartbeatGaps gaps;
  Standing standing = Standing::kRunning;

  std::optional<int> share;  // of an aggregator: its place among them

  std::vector<Rank> ranks;  // of a worker, ascending; final once the run has begun
  Wish wish;
  std::string metrics;  // "host:port"; empty: it serves none
  int threads = 0;      // that it was told to use; 0: any number
  int cores = 0;        // that it may use
  std::string host;     // equal for workers that share those cores
  uint32_t pid = 0;     // process id on its host; 0: it did not tell
  // Why it cannot go on without a lost worker; empty: it can.
  std::string cannot_recover;
  bool ready = false;                 // for the first step that is not sealed
  std::vector<TensorDigest> digests;  // of its parameters then, ascending; if they are compared
};

Participant WorkerOf(SessionId session, const v1::Hello& hello, absl::Time now);
Participant AggregatorOf(SessionId session, const v1::Offer& offer, absl::Time now);
Wish WishOf(const v1::Hello& hello);

// "rank 2", "ranks 0, 1" or "aggregator 0": for messages.
std::string NameOf(const Participant& participant);
// With the address: "rank 2 (10.10.1.3:4711)".
std::string Describe(const Participant& participant);

// The compute threads of every worker: the number that some were told, or else the
// smallest that all can have, max(1, cores / ranks that share them).
int ThreadsFor(const std::vector<const Participant*>& workers);

// How the parameters of workers differ that should be equal.
struct ReplicaDifference {
  size_t tensor = 0;  // the first that does: its index in the layout
  // Who differs from more than half of all workers; empty if no half and more have the same.
  std::vector<Incarnation> minority;
};

// Compares what the workers said with the Ready for one step; none if all said the same. Pure.
std::optional<ReplicaDifference> CompareReplicas(const std::vector<Participant*>& workers);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_PARTICIPANT_H_
