#ifndef GRADWIRE_TESTS_FUZZ_TARGETS_STREAM_CHUNKS_H_
#define GRADWIRE_TESTS_FUZZ_TARGETS_STREAM_CHUNKS_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/wire/chunk.h"
#include "common/wire/view.h"
#include "gradwire/v1/chunk.pb.h"
#include "tests/fuzz/input_reader.h"

namespace gradwire {

// Chunks of a view as a peer sends them, for targets that take whole streams.

// Ranks 0 to `world_size` - 1, a worker each; the receiver carries the last one.
View StreamView(int world_size, uint64_t chunk_bytes);

// One with the view's run, epoch and generation, and this payload with its checksum.
v1::Chunk StreamChunk(const View& view, const std::string& payload);

// `count` floats from -7 to 8, of which sums are exact.
std::string SmallFloats(uint64_t count, InputReader* input);

// Over the wire: now and then with a field changed, and then perhaps with the right checksum, and
// in slices of some length. The error of DecodeChunk.
absl::StatusOr<Chunk> Receive(v1::Chunk chunk, InputReader* input);

// Whether the error is one that a sender of chunks may get.
bool IsErrorOfChunk(const absl::Status& status);

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_FUZZ_TARGETS_STREAM_CHUNKS_H_
