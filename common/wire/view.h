#ifndef GRADWIRE_COMMON_WIRE_VIEW_H_
#define GRADWIRE_COMMON_WIRE_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "common/wire/layout.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// A worker and where it serves Neighbor.
struct Member {
  Incarnation incarnation;
  std::string address;  // "host:port"
  std::vector<Rank> ranks;
};

// Which worker carries which ranks. Equal on all members but for `rank` and `aggregator`.
struct View {
  RunId run_id{};
  CoordinatorEpoch epoch;
  Generation generation;
  int world_size = 0;
  Rank rank;  // of the receiver
  std::vector<Member> members;
  uint64_t chunk_bytes = 0;                   // longest piece of Gather and Scatter
  std::vector<std::string> aggregators = {};  // separate ones, "host:port"
  // To an aggregator only: its place among them, and what it sums; it has no rank.
  absl::optional<int> aggregator = absl::nullopt;
  std::vector<BucketSpec> buckets = {};

  // The member that carries `rank`; the view must be valid (see ViewFromProto).
  const Member& Carrier(Rank rank) const;
};

v1::View ToProto(const View& view);
// InvalidArgument if the run id is not 16 bytes, the world size or the rank is
// out of range, a rank is carried by none or twice, or chunk_bytes is not a positive multiple
// of 64, or the aggregator's place is none of `aggregators`.
absl::StatusOr<View> ViewFromProto(const v1::View& proto);
// InvalidArgument if `bytes` is not 16 bytes long.
absl::StatusOr<RunId> RunIdFromBytes(const std::string& bytes);
std::string ToBytes(const RunId& run_id);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_WIRE_VIEW_H_
