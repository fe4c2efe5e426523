#ifndef GRADWIRE_COMMON_WIRE_CHUNK_CODEC_H_
#define GRADWIRE_COMMON_WIRE_CHUNK_CODEC_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/wire/chunk.h"

namespace gradwire {

// Returns v1.Chunk.checksum: the checksum of the payload (`header.checksum`) xor that of
// the other fields. Given the received checksum instead, returns the payload's.
uint64_t WireChecksum(const ChunkHeader& header);

// Returns the bytes of a serialized v1.Chunk up to its payload, byte for byte as protobuf writes
// them; the payload's bytes follow.
std::string EncodeChunkHeader(const ChunkHeader& header, uint64_t payload_bytes);

// Serializes a v1.Chunk: one slice for the header, and the payload's slices by reference; their
// memory must outlive the buffer.
grpc::ByteBuffer EncodeChunk(const ChunkHeader& header, std::vector<grpc::Slice> payload);

// Parses a serialized v1.Chunk without copying its payload: the result holds references to the
// buffer's slices. Its checksum matches its payload only if no field was changed (CheckPayload).
// InvalidArgument if it is not a v1.Chunk, the payload is not the last field or longer than
// kMaxPayloadBytes, the run_id is missing or not 16 bytes, or rank, bucket, dtype or hop are not
// int32.
absl::StatusOr<Chunk> DecodeChunk(grpc::ByteBuffer* buffer);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_WIRE_CHUNK_CODEC_H_
