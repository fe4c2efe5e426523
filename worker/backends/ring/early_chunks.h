#ifndef GRADWIRE_WORKER_BACKENDS_RING_EARLY_CHUNKS_H_
#define GRADWIRE_WORKER_BACKENDS_RING_EARLY_CHUNKS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "common/wire/chunk.h"
#include "worker/backends/exchange.h"

namespace gradwire {

// Chunks that came before their bucket was expected or their receiver had handed in its
// terms, by bucket and receiver in the order of their coming. These are held from its first chunk
// on until Next finds that all of them were taken: so long its further chunks have to queue here
// too. Not thread-safe.
class EarlyChunks {
 public:
  using Key = std::pair<BucketKey, Rank>;  // bucket, receiver

  bool Holds(const Key& key) const { return held_.count(key) > 0; }
  // Of all chunks of `key` since it is held.
  uint64_t Bytes(const Key& key) const;

  // InvalidArgument, and nothing is kept, if those of `key` were more than `most_bytes`.
  absl::Status Keep(const Key& key, Chunk chunk, uint64_t most_bytes);

  // The next chunk of a key that `is_ready`. The one that Next gave before has been taken.
  absl::optional<Chunk> Next(const std::function<bool(const Key&)>& is_ready);

  // The lowest step of a layout of which a chunk waits.
  absl::optional<Step> FirstStep(LayoutId layout) const;

  void Clear() { held_.clear(); }

 private:
  struct Held {
    std::deque<Chunk> chunks;
    uint64_t bytes = 0;
  };
  std::map<Key, Held> held_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_RING_EARLY_CHUNKS_H_
