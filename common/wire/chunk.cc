#include "common/wire/chunk.h"

#include <xxhash.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace gradwire {

std::string ToString(const ChunkHeader& header) {
  const std::string layout =
      header.layout == LayoutId(0) ? "" : absl::StrCat("layout ", header.layout.value(), ", ");
  return absl::StrCat(layout, "step ", header.step.value(), ", rank ", header.rank.value(),
                      ", bucket ", header.bucket.value(), ", offset ", header.offset);
}

size_t TotalBytes(const Pieces& pieces) {
  size_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  return bytes;
}

uint64_t Checksum(const Pieces& pieces) {
  if (pieces.size() == 1) return Checksum(pieces[0]);
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset(state);
  for (const auto& piece : pieces) {
    if (!piece.empty()) XXH3_64bits_update(state, piece.data(), piece.size());
  }
  const uint64_t checksum = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return checksum;
}

uint64_t Checksum(absl::Span<const uint8_t> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

void CopyTo(const Pieces& pieces, uint8_t* out) {
  for (const auto& piece : pieces) {
    if (piece.empty()) continue;
    std::memcpy(out, piece.data(), piece.size());
    out += piece.size();
  }
}

}  // namespace gradwire
