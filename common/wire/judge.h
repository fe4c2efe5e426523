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

// The receiver's state when a chunk arrives.
struct ReceiverState {
  RunId run_id{};
  CoordinatorEpoch epoch;
  Generation generation;
  Step open_step;  // the step being summed; all earlier steps are committed
  int world_size = 0;
  absl::Span<const BucketSpec> buckets;
};

enum class Verdict {
  kAccept,     // take it
  kStale,      // of an older epoch or generation: drop and count
  kCommitted,  // its step is over: acknowledge and drop
  kDuplicate,  // already held, with the same bytes: acknowledge and drop
};

// Checks that a chunk is of the receiver's run and view: kAccept, kStale, PermissionDenied or
// Aborted, as in JudgeHeader, which checks this first.
absl::StatusOr<Verdict> JudgeView(const ChunkHeader& header, const ReceiverState& receiver);

// Checks the header of a received chunk; all receivers of Chunk use this. Pure. `covered_bytes`:
// bytes of the bucket that it represents (CoveredBytes). `held_checksum`: checksum of the chunk
// held under the same key, if any. Errors (see chunk.proto); their messages name step, rank and
// bucket:
//   PermissionDenied  another run
//   Aborted           an epoch or generation newer than the receiver's: send again later
//   InvalidArgument   rank, bucket, total, dtype, offset or length contradict the layout
//   OutOfRange        a step after the open one
//   DataLoss          same key as a held chunk, other bytes
absl::StatusOr<Verdict> JudgeHeader(const ChunkHeader& header, uint64_t covered_bytes,
                                    const ReceiverState& receiver,
                                    absl::optional<uint64_t> held_checksum);

// DataLoss, with the chunk's name, if the payload does not match the header's checksum.
absl::Status CheckPayload(const Chunk& chunk);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_WIRE_JUDGE_H_
