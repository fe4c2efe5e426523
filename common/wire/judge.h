#ifndef GRADWIRE_COMMON_WIRE_JUDGE_H_
#define GRADWIRE_COMMON_WIRE_JUDGE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/wire/chunk.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"

namespace gradwire {

// What a receiver knows when a chunk comes in.
struct ReceiverState {
  RunId run_id{};
  CoordinatorEpoch epoch;
  Generation generation;
  Step open_step;  // the step that is being summed; all before it are committed
  int world_size = 0;
  absl::Span<const BucketSpec> buckets;
};

enum class Verdict {
  kAccept,     // take it
  kStale,      // of an older epoch or generation: drop and count
  kCommitted,  // its step is over: acknowledge and drop
  kDuplicate,  // held already, same bytes: acknowledge and drop
};

// Whether a chunk is of the receiver's run and view: kAccept, kStale, PermissionDenied or
// Aborted as JudgeHeader, which asks this first.
absl::StatusOr<Verdict> JudgeView(const ChunkHeader& header, const ReceiverState& receiver);

// Judges the header of a received chunk; all receivers of Chunk ask this. Pure.
// `covered_bytes` are those of the bucket that it stands for (CoveredBytes).
// `held_checksum` is that of the chunk held under the same key, if there is one.
// Errors (see chunk.proto), whose messages name step, rank and bucket:
//   PermissionDenied  another run
//   Aborted           an epoch or generation newer than the receiver's: send again later
//   InvalidArgument   rank, bucket, total, dtype, offset or length contradict the layout
//   OutOfRange        a step after the open one
//   DataLoss          same key as a held chunk, other bytes
absl::StatusOr<Verdict> JudgeHeader(const ChunkHeader& header, uint64_t covered_bytes,
                                    const ReceiverState& receiver,
                                    absl::optional<uint64_t> held_checksum);

// DataLoss, naming the chunk, if the payload does not have the header's checksum.
absl::Status CheckPayload(const Chunk& chunk);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_WIRE_JUDGE_H_
