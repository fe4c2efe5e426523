#ifndef GRADWIRE_TESTS_SUPPORT_SEALED_CHUNK_H_
#define GRADWIRE_TESTS_SUPPORT_SEALED_CHUNK_H_

#include <string>

#include "common/wire/chunk_codec.h"
#include "gradwire/v1/chunk.pb.h"

namespace gradwire {

// Gives a chunk made by hand its checksum; `in_slot`: the payload, if it is in a slot. One that
// DecodeChunk refuses stays without.
inline void SealChunk(v1::Chunk* chunk, absl::string_view in_slot = "") {
  chunk->clear_checksum();
  const grpc::Slice slice(chunk->SerializeAsString());
  grpc::ByteBuffer buffer(&slice, 1);
  absl::StatusOr<Chunk> decoded = DecodeChunk(&buffer);
  if (!decoded.ok()) return;
  decoded->header.checksum = in_slot.empty() ? Checksum(decoded->payload) : Checksum(in_slot);
  chunk->set_checksum(WireChecksum(decoded->header));
}

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_SUPPORT_SEALED_CHUNK_H_
