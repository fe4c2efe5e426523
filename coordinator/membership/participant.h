#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_PARTICIPANT_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_PARTICIPANT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/wire/tensor_digest.h"
#include "coordinator/membership/assignment.h"
#include "coordinator/membership/lease.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

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

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_PARTICIPANT_H_
