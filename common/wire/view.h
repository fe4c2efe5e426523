#ifndef GRADWIRE_COMMON_WIRE_VIEW_H_
#define GRADWIRE_COMMON_WIRE_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/base/memory_limits.h"
#include "common/wire/layout.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// A worker, its address for peers, and the ranks that it carries.
struct Member {
  Incarnation incarnation;
  std::string address;  // "host:port"
  std::vector<Rank> ranks;
  uint32_t pid = 0;          // process id on its host; 0: unknown
  std::string memory = {};   // see MemoryId; empty: it shares none
  MemoryLimits limits = {};  // of its shared memory, when it joined
};

// Assigns ranks to workers. Equal on all members except for `self` and `aggregator`.
struct View {
  RunId run_id{};
  CoordinatorEpoch epoch;
  Generation generation;
  int world_size = 0;  // ranks
  Incarnation self;    // the receiver; not a member if it is an aggregator
  std::vector<Member> members;
  uint64_t chunk_bytes = 0;                   // longest piece of Gather and Scatter
  std::vector<std::string> aggregators = {};  // separate aggregators, "host:port"
  // Only for an aggregator: its index among them; it carries no rank.
  absl::optional<int> aggregator = absl::nullopt;
  int threads = 1;  // compute threads of every worker
  // First step of this view in every layout: all earlier steps are done.
  Step first_step = Step(0);
  bool seals = false;  // whether steps are sealed; see membership.proto
  // Whether the coordinator keeps checkpoints, and the steps from one to the next; 0: only the last
  // and those that Save names.
  bool keeps_state = false;
  uint64_t checkpoint_every = 0;
  bool records = false;  // whether Ready reports samples, for the coordinator's ledger

  // Returns the member that carries `rank`; the view must be valid (see ViewFromProto).
  const Member& Carrier(Rank rank) const;
  // Returns whether the receiver carries `rank`.
  bool Carries(Rank rank) const { return Carrier(rank).incarnation == self; }
  // Returns whether all workers can map each other's memory.
  bool SharesMemory() const;
  // Returns whether the receiver and a member, which is not the receiver, can.
  bool SharesMemoryWith(const Member& member) const;
  // Returns the ranks of workers that can map each other's memory, ascending: a group for each host
  // with several such workers.
  std::vector<std::vector<Rank>> MemoryGroups() const;
  // Returns the receiver's ranks, ascending; none if it is an aggregator.
  std::vector<Rank> OwnRanks() const;
};

// Returns "rank 2" or "ranks 0, 1", for messages.
std::string NameOf(absl::Span<const Rank> ranks);

v1::MemoryLimits ToProto(const MemoryLimits& limits);
MemoryLimits LimitsFromProto(const v1::MemoryLimits& proto);

v1::View ToProto(const View& view);
// Converts the view as received by `self`. InvalidArgument if the run id is not 16 bytes, the world
// size is out of range, a rank has no carrier or two, the worker `self` is not a member or carries
// no rank, chunk_bytes is not a positive multiple of 64, threads is 0, or the aggregator's index is
// out of range.
absl::StatusOr<View> ViewFromProto(const v1::View& proto, Incarnation self);
// InvalidArgument if `bytes` is not 16 bytes long.
absl::StatusOr<RunId> RunIdFromBytes(const std::string& bytes);
std::string ToBytes(const RunId& run_id);

// A worker that carries ranks of another one.
struct Adoption {
  Member by;                // with all its ranks, in the later view
  std::vector<Rank> ranks;  // adopted from others, ascending
};

// The change of a run's workers between two views.
struct ViewChange {
  std::vector<Member> lost;  // as in the earlier view, in its order
  std::vector<Adoption> adoptions;

  // Returns all ranks of `lost`, ascending.
  std::vector<Rank> LostRanks() const;
};

// `now` must be a later view of the run than `before`, one or more generations.
ViewChange ChangeOf(const View& before, const View& now);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_WIRE_VIEW_H_
