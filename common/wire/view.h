#ifndef GRADWIRE_COMMON_WIRE_VIEW_H_
#define GRADWIRE_COMMON_WIRE_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/wire/layout.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// A worker, where it serves its peers, and which ranks it carries.
struct Member {
  Incarnation incarnation;
  std::string address;  // "host:port"
  std::vector<Rank> ranks;
};

// Which worker carries which ranks. Equal on all members but for `self` and `aggregator`.
struct View {
  RunId run_id{};
  CoordinatorEpoch epoch;
  Generation generation;
  int world_size = 0;  // ranks
  Incarnation self;    // the receiver; no member if it is an aggregator
  std::vector<Member> members;
  uint64_t chunk_bytes = 0;                   // longest piece of Gather and Scatter
  std::vector<std::string> aggregators = {};  // separate ones, "host:port"
  // To an aggregator only: its place among them; it carries no rank.
  absl::optional<int> aggregator = absl::nullopt;
  int threads = 1;  // compute threads of every worker
  // That this view begins with, in every layout: the run is through with all before.
  Step first_step = Step(0);
  bool seals = false;  // whether steps are sealed; see membership.proto

  // The member that carries `rank`; the view must be valid (see ViewFromProto).
  const Member& Carrier(Rank rank) const;
  // Whether the receiver carries `rank`.
  bool Carries(Rank rank) const { return Carrier(rank).incarnation == self; }
  // The receiver's ranks, ascending; none if it is an aggregator.
  std::vector<Rank> OwnRanks() const;
};

// "rank 2" or "ranks 0, 1": for messages.
std::string NameOf(absl::Span<const Rank> ranks);

v1::View ToProto(const View& view);
// The view as `self` gets it. InvalidArgument if the run id is not 16 bytes, the world size
// is out of range, a rank is carried by none or twice, a worker that is `self` is no member or
// carries none, chunk_bytes is not a positive multiple of 64, threads is 0, or the
// aggregator's place is none of `aggregators`.
absl::StatusOr<View> ViewFromProto(const v1::View& proto, Incarnation self);
// InvalidArgument if `bytes` is not 16 bytes long.
absl::StatusOr<RunId> RunIdFromBytes(const std::string& bytes);
std::string ToBytes(const RunId& run_id);

// A worker that carries ranks which another one carried before.
struct Adoption {
  Member by;                // with all its ranks, as in the later view
  std::vector<Rank> ranks;  // those that it has from others, ascending
};

// What became of a run's workers between two views.
struct ViewChange {
  std::vector<Member> lost;  // as they were in the earlier view, in its order
  std::vector<Adoption> adoptions;

  // All ranks of `lost`, ascending.
  std::vector<Rank> LostRanks() const;
};

// `now` is a later view of the run than `before`, one or several generations.
ViewChange ChangeOf(const View& before, const View& now);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_WIRE_VIEW_H_
