#include "common/wire/chunk.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/wire/xxh3.h"

namespace gradwire {

std::string ToString(const ChunkHeader& header) {
  const std::string layout =
      header.layout == LayoutId(0) ? "" : absl::StrCat("layout ", header.layout.value(), ", ");
  return absl::StrCat(layout, "step ", header.step.value(), ", rank ", header.rank.value(),
                      ", bucket ", header.bucket.value(), ", offset ", header.offset);
}

size_t TotalBytes(const ByteSpans& pieces) {
  size_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  return bytes;
}

ByteSpans Part(const ByteSpans& pieces, size_t offset, size_t bytes) {
  ByteSpans part;
  for (const auto& piece : pieces) {
    if (bytes == 0) break;
    if (offset >= piece.size()) {
      offset -= piece.size();
      continue;
    }
    part.push_back(piece.subspan(offset, bytes));  // at most up to its end
    bytes -= part.back().size();
    offset = 0;
  }
  return part;
}

uint64_t CoveredBytes(const Chunk& chunk) {
  return chunk.header.covers > 0 ? chunk.header.covers : TotalBytes(chunk.payload);
}

uint64_t Checksum(const ByteSpans& pieces) {
  if (pieces.size() == 1) return Checksum(pieces[0]);
  Xxh3State state;
  Xxh3InUse().begin(&state);
  for (const auto& piece : pieces) {
    if (!piece.empty()) Xxh3InUse().update(&state, piece.data(), piece.size());
  }
  return Xxh3InUse().end(&state);
}

uint64_t Checksum(absl::Span<const uint8_t> bytes) {
  return Xxh3InUse().whole(bytes.data(), bytes.size());
}

uint64_t Checksum(absl::string_view bytes) { return Xxh3InUse().whole(bytes.data(), bytes.size()); }

void CopyTo(const ByteSpans& pieces, uint8_t* out) {
  for (const auto& piece : pieces) {
    if (piece.empty()) continue;
    std::memcpy(out, piece.data(), piece.size());
    out += piece.size();
  }
}

}  // namespace gradwire
