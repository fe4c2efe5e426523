#include "worker/backends/hops/early_chunks.h"

#include "absl/strings/str_cat.h"

namespace gradwire {

uint64_t EarlyChunks::Bytes(const Key& key) const {
  const auto found = held_.find(key);
  return found == held_.end() ? 0 : found->second.bytes;
}

absl::Status EarlyChunks::Keep(const Key& key, Chunk chunk, uint64_t most_bytes) {
  const uint64_t bytes = Bytes(key) + TotalBytes(chunk.payload);
  if (bytes > most_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("chunk of ", ToString(chunk.header), ": got ",
                                                   bytes, " bytes of this hop, expected at most ",
                                                   most_bytes));
  }
  Held& held = held_[key];
  held.bytes = bytes;
  held.chunks.push_back(std::move(chunk));
  return absl::OkStatus();
}

absl::optional<std::pair<EarlyChunks::Key, Chunk>> EarlyChunks::Next(const IsReady& is_ready) {
  for (auto it = held_.begin(); it != held_.end();) {
    std::deque<Chunk>& chunks = it->second.chunks;
    if (chunks.empty()) {
      it = held_.erase(it);
    } else if (!is_ready(it->first, chunks.front())) {
      ++it;
    } else {
      std::pair<Key, Chunk> next{it->first, std::move(chunks.front())};
      chunks.pop_front();
      return next;
    }
  }
  return absl::nullopt;
}

absl::optional<Step> EarlyChunks::FirstStep(LayoutId layout) const {
  for (const auto& [key, held] : held_) {
    if (key.bucket.layout == layout && !held.chunks.empty()) return key.bucket.step;
  }
  return absl::nullopt;
}

}  // namespace gradwire
