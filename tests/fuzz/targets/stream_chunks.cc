#include "tests/fuzz/targets/stream_chunks.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/wire/chunk_codec.h"
#include "tests/fuzz/alter_field.h"
#include "tests/support/sealed_chunk.h"

namespace gradwire {
namespace {

grpc::ByteBuffer InSlices(absl::string_view bytes, size_t slice_bytes) {
  std::vector<grpc::Slice> slices;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(slice_bytes, bytes.size()))) {
    slices.emplace_back(std::string(bytes.substr(0, slice_bytes)));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace

View StreamView(int world_size, uint64_t chunk_bytes) {
  View view;
  view.run_id.fill(7);
  view.epoch = CoordinatorEpoch(1);
  view.generation = Generation(1);
  view.world_size = world_size;
  view.chunk_bytes = chunk_bytes;
  for (int rank = 0; rank < world_size; ++rank) {
    view.self = Incarnation(static_cast<uint64_t>(rank) + 1);
    view.members.push_back({view.self, "", {Rank(rank)}});
  }
  return view;
}

v1::Chunk StreamChunk(const View& view, const std::string& payload) {
  v1::Chunk chunk;
  chunk.set_run_id(ToBytes(view.run_id));
  chunk.set_epoch(view.epoch.value());
  chunk.set_generation(view.generation.value());
  chunk.set_payload(payload);
  SealChunk(&chunk);
  return chunk;
}

std::string SmallFloats(uint64_t count, InputReader* input) {
  std::string bytes(count * sizeof(float), '\0');
  const int first = input->Byte();
  for (uint64_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>((first + static_cast<int>(i)) % 16 - 7);
    std::memcpy(&bytes[i * sizeof(float)], &value, sizeof(value));
  }
  return bytes;
}

absl::StatusOr<Chunk> Receive(v1::Chunk chunk, InputReader* input) {
  const uint8_t how = input->Byte();
  if (how >= 0xc0) {
    AlterField(input, &chunk);
    if (how >= 0xe0) SealChunk(&chunk);
  }
  const std::string bytes = chunk.SerializeAsString();
  const size_t slices = 1 + how % 64;
  grpc::ByteBuffer buffer = InSlices(bytes, 1 + bytes.size() / slices);
  return DecodeChunk(&buffer);
}

bool IsErrorOfChunk(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
      return !status.message().empty();
    default:
      return false;
  }
}

}  // namespace gradwire
