#ifndef GRADWIRE_COMMON_WIRE_CHUNK_H_
#define GRADWIRE_COMMON_WIRE_CHUNK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "gradwire/v1/chunk.pb.h"

namespace gradwire {

// Maximum length of a payload; receivers refuse longer messages.
inline constexpr uint64_t kMaxPayloadBytes = uint64_t{4} << 20;
// Limit of a whole message. It leaves room for the header and for our own, clearer error above
// kMaxPayloadBytes.
inline constexpr int kMaxMessageBytes = 16 << 20;

// v1.Clocks.
struct ChunkClocks {
  double rate = 0;
  uint64_t slowest = 0;
  uint64_t fastest = 0;
};

// The fields of v1.Chunk except the payload; see chunk.proto for units.
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
  uint64_t checksum = 0;  // of the payload only; on the wire: WireChecksum
  uint32_t hop = 0;
  uint64_t covers = 0;
  ChunkClocks clocks = {};
  uint32_t slot = 0;  // 0: the payload is in the message
  uint32_t slot_bytes = 0;
};

// Returns "step 7, rank 2, bucket 0, offset 1048576" for messages, after the layout unless it is 0.
std::string ToString(const ChunkHeader& header);

// Bytes in several pieces of memory, in order. Pieces may be empty, unaligned, and may split an
// element.
using ByteSpans = std::vector<absl::Span<const uint8_t>>;

size_t TotalBytes(const ByteSpans& pieces);
// Returns the part from `offset` on, `bytes` long, which must be within `pieces`.
ByteSpans Part(const ByteSpans& pieces, size_t offset, size_t bytes);

// A received chunk. `pieces` are valid as long as `owner` (or a copy) lives.
struct Chunk {
  ChunkHeader header;
  ByteSpans payload;
  std::shared_ptr<const void> owner;
};

// Returns the number of the bucket's bytes that the chunk represents.
uint64_t CoveredBytes(const Chunk& chunk);

// Returns XXH3_64bits with seed 0 over all pieces, as if they were contiguous.
uint64_t Checksum(const ByteSpans& pieces);
uint64_t Checksum(absl::Span<const uint8_t> bytes);
uint64_t Checksum(absl::string_view bytes);

// Copies all pieces to `out`, which must have room for TotalBytes(pieces).
void CopyTo(const ByteSpans& pieces, uint8_t* out);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_WIRE_CHUNK_H_
