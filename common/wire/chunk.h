#ifndef GRADWIRE_COMMON_WIRE_CHUNK_H_
#define GRADWIRE_COMMON_WIRE_CHUNK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "gradwire/v1/chunk.pb.h"

namespace gradwire {

// A payload may be at most this long; receivers refuse longer messages.
inline constexpr uint64_t kMaxPayloadBytes = uint64_t{4} << 20;
// Limit for a whole message, with room for the header and a clear error above
// kMaxPayloadBytes instead of gRPC's.
inline constexpr int kMaxMessageBytes = 16 << 20;

// v1.Clocks.
struct ChunkClocks {
  double rate = 0;
  uint64_t slowest = 0;
  uint64_t fastest = 0;
};

// The fields of v1.Chunk but for the payload; see chunk.proto for units.
struct ChunkHeader {
  RunId run_id{};
  CoordinatorEpoch epoch;
  Generation generation;
  LayoutId layout;
  Step step;
  Rank rank;
  Bucket bucket;
  uint64_t offset = 0;
  uint64_t total = 0;
  v1::DType dtype = v1::DTYPE_FLOAT32;
  uint64_t checksum = 0;  // of the payload alone; on the wire: WireChecksum
  uint32_t hop = 0;
  uint64_t covers = 0;
  ChunkClocks clocks = {};
};

// "step 7, rank 2, bucket 0, offset 1048576", with the layout in front unless it is 0:
// for messages.
std::string ToString(const ChunkHeader& header);

// Bytes that lie in several pieces of memory, in order; pieces may be empty,
// unaligned, and may split an element.
using ByteSpans = std::vector<absl::Span<const uint8_t>>;

size_t TotalBytes(const ByteSpans& pieces);
// The part from `offset` on, `bytes` long, which is within `pieces`.
ByteSpans Part(const ByteSpans& pieces, size_t offset, size_t bytes);

// A received chunk. `pieces` stay valid as long as `owner` (or a copy) lives.
struct Chunk {
  ChunkHeader header;
  ByteSpans payload;
  std::shared_ptr<const void> owner;
};

// Bytes of the bucket that the chunk stands for.
uint64_t CoveredBytes(const Chunk& chunk);

// XXH3_64bits with seed 0 over all pieces, as if they were one.
uint64_t Checksum(const ByteSpans& pieces);
uint64_t Checksum(absl::Span<const uint8_t> bytes);

// Copies all pieces to `out`, which has room for TotalBytes(pieces).
void CopyTo(const ByteSpans& pieces, uint8_t* out);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_WIRE_CHUNK_H_
