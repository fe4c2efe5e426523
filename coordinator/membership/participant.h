#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_PARTICIPANT_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_PARTICIPANT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/base/memory_limits.h"
#include "common/wire/layout.h"
#include "coordinator/membership/assignment.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// Interval of calls of Membership::OnTick.
inline constexpr absl::Duration kTick = absl::Milliseconds(100);

// Returns how long the coordinator itself stood still (stopped, or its host asleep), given the
// `gap` between two ticks: the whole gap if it is longer than a second, else zero. That time never
// counts as another process's silence.
inline absl::Duration StoodStill(absl::Duration gap) {
  return gap > absl::Seconds(1) ? gap : absl::ZeroDuration();
}

// The latest durations, up to a maximum number.
class RecentDurations {
 public:
  explicit RecentDurations(size_t most) : most_(most) {}

  void Add(absl::Duration duration);
  size_t size() const { return durations_.size(); }
  // The smallest duration that `percent` of a hundred do not exceed; zero if there are none.
  absl::Duration Percentile(int percent) const;

 private:
  const size_t most_;
  std::deque<absl::Duration> durations_;
};

// Gaps between the heartbeats of one member. A member with a busy host or a slow link has longer
// gaps now and then, long before it falls silent for good.
class HeartbeatGaps {
 public:
  void OnHeartbeat(absl::Time now);
  // The coordinator itself stood still for `paused`, which counts in no gap.
  void OnPause(absl::Duration paused, absl::Time now);
  // Returns the 99th percentile of the last minute; none if there are too few heartbeats yet.
  std::optional<absl::Duration> Usual() const;

 private:
  static constexpr size_t kEnough = 20;
  static constexpr size_t kMost = 240;

  std::optional<absl::Time> last_;
  RecentDurations gaps_{kMost};
};

// How late the coordinator runs its ticks: it then hears all members that late.
class TickLag {
 public:
  void OnTick(absl::Duration since_last) { lags_.Add(since_last - kTick); }
  // Returns the longest lag of the last ten seconds, at least zero.
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
// and `most` until its usual gap is known. A member with regular heartbeats is soon found lost. One
// with irregular heartbeats, or with a coordinator that is late itself, has more time.
absl::Duration LeaseFor(const HeartbeatGaps& gaps, const TickLag& lag, const LeaseLimits& limits);

// Longest text of a member in messages for people.
constexpr size_t kMostCause = 1000;

// One stream of Membership.Session; numbers are never reused.
using SessionId = StrongInt<struct SessionIdTag, uint64_t>;

enum class Standing { kRunning, kFinished, kLost };

// A process that has joined: a worker, or a separate aggregator, which carries no ranks but a share
// of the sums.
struct Participant {
  std::optional<SessionId> session;  // none after its end
  Incarnation incarnation;
  std::string address;    // "host:port"
  absl::Time last_heard;  // any message
  HeartbeatGaps gaps;
  Standing standing = Standing::kRunning;

  std::optional<int> share;  // of an aggregator: its index

  std::vector<Rank> ranks;  // of a worker, ascending; final after the run has begun
  Wish wish;
  std::string metrics;  // "host:port"; empty: not served
  int threads = 0;      // its setting; 0: any number
  int cores = 0;        // available cores
  std::string host;     // equal for workers that share cores
  std::string memory;   // see MemoryId
  MemoryLimits limits;  // of its shared memory
  uint32_t pid = 0;     // process id on its host; 0: unknown
  // Why the run cannot continue without a lost worker, as this worker says; empty: it can.
  std::string cannot_recover;
  bool ready = false;                 // for the first step that is not sealed
  std::vector<TensorDigest> digests;  // of its parameters at that step, ascending; if compared
  // Of its ranks in that step; empty: it does not report them.
  std::vector<v1::RankSamples> samples;
  std::map<std::string, std::string> environment;  // as in its Hello
  // The copy of its state that it reported last in this view, without digests; and the digests of
  // what all workers have in common.
  std::optional<v1::Holds> holds;
  std::vector<TensorDigest> held_digests;
};

Participant WorkerOf(SessionId session, const v1::Hello& hello, absl::Time now);
Participant AggregatorOf(SessionId session, const v1::Offer& offer, absl::Time now);
Wish WishOf(const v1::Hello& hello);

// Returns "rank 2", "ranks 0, 1" or "aggregator 0", for messages.
std::string NameOf(const Participant& participant);
// Returns the name with the address: "rank 2 (10.10.1.3:4711)".
std::string Describe(const Participant& participant);

// Returns the compute threads of every worker: the number in some worker's setting, or else the
// smallest that all can have, max(1, cores / ranks that share them).
int ThreadsFor(const std::vector<const Participant*>& workers);

// A difference between workers whose parameters should be equal.
struct ReplicaDifference {
  size_t tensor = 0;  // index in the layout of the first that differs
  // Workers that differ from more than half of all workers; empty if no majority is equal.
  std::vector<Incarnation> minority;
};

// Returns an error if a Ready message has samples that are not those of the worker's ranks, in
// their order.
absl::Status CheckSamples(const Participant& worker, const v1::Ready& ready);

// Returns one digest of all; see SealedRecord in ledger.proto.
uint64_t DigestOf(const std::vector<TensorDigest>& digests);

// Compares the digests of one step: of its Ready or, by their name, of other messages. Returns none
// if all are equal. Pure.
std::optional<ReplicaDifference> CompareReplicas(
    const std::vector<Participant*>& workers,
    std::vector<TensorDigest> Participant::*digests = &Participant::digests);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_PARTICIPANT_H_
