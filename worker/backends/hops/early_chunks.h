#ifndef GRADWIRE_WORKER_BACKENDS_HOPS_EARLY_CHUNKS_H_
#define GRADWIRE_WORKER_BACKENDS_HOPS_EARLY_CHUNKS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "common/wire/chunk.h"
#include "worker/backends/exchange.h"

namespace gradwire {

// Chunks that came before their bucket was expected, their receiver had handed in its terms, or
// what is added before them had come: of each hop in the order of their coming. A hop is held from
// its first chunk on until Next finds that all of them were taken: so long its further chunks have
// to queue here too. Not thread-safe.
class EarlyChunks {
 public:
  // One hop of a bucket.
  struct Key {
    BucketKey bucket;
    Rank receiver;
    int receive = 0;  // which of the receiver's; see RankPlan

    friend bool operator<(const Key& a, const Key& b) {
      return std::tie(a.bucket, a.receiver, a.receive) < std::tie(b.bucket, b.receiver, b.receive);
    }
  };

  bool Holds(const Key& key) const { return held_.count(key) > 0; }
  // Of all chunks of `key` since it is held.
  uint64_t Bytes(const Key& key) const;

  // InvalidArgument, and nothing is kept, if those of `key` were more than `most_bytes`.
  absl::Status Keep(const Key& key, Chunk chunk, uint64_t most_bytes);

  // A key and its next chunk, if that `is_ready`. What Next gave before has been taken.
  using IsReady = std::function<bool(const Key&, const Chunk&)>;
  absl::optional<std::pair<Key, Chunk>> Next(const IsReady& is_ready);

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

#endif  // GRADWIRE_WORKER_BACKENDS_HOPS_EARLY_CHUNKS_H_
