#ifndef GRADWIRE_COMMON_WIRE_CHUNK_CODEC_H_
#define GRADWIRE_COMMON_WIRE_CHUNK_CODEC_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/wire/chunk.h"

namespace gradwire {

// What v1.Chunk.checksum is: the payload's (`header.checksum`) and that of all other fields in one.
// Given what came in its place, it gives the payload's back.
uint64_t WireChecksum(const ChunkHeader& header);

// The bytes of a serialised v1.Chunk up to its payload, byte for byte as
// protobuf writes them; the payload's bytes follow.
std::string EncodeChunkHeader(const ChunkHeader& header, uint64_t payload_bytes);

// A serialised v1.Chunk: a slice for the header, and the payload's by reference (they
// decide how long their memory must live).
grpc::ByteBuffer EncodeChunk(const ChunkHeader& header, std::vector<grpc::Slice> payload);

// Reads a serialised v1.Chunk without copying its payload: the result holds
// references to the buffer's slices. Its checksum fits its payload only if all fields are as they
// were sent (CheckPayload). InvalidArgument if it is not a v1.Chunk,
// the payload is not the last field or longer than kMaxPayloadBytes, the
// run_id is missing or not 16 bytes, or rank, bucket, dtype or hop are no int32.
absl::StatusOr<Chunk> DecodeChunk(grpc::ByteBuffer* buffer);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_WIRE_CHUNK_CODEC_H_
