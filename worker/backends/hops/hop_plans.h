#ifndef GRADWIRE_WORKER_BACKENDS_HOPS_HOP_PLANS_H_
#define GRADWIRE_WORKER_BACKENDS_HOPS_HOP_PLANS_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/fold/blocks.h"
#include "common/wire/chunk.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"
#include "worker/backends/hops/hop_plan.h"
#include "worker/backends/hops/neighbor_stream.h"

namespace gradwire {

// The content of one message: ranges of a bucket that take the same route.
struct HopChunk {
  std::vector<FoldRange> ranges;  // ascending
  uint64_t bytes = 0;             // of all
};

// Cuts a bucket into segments, each with its own route, and segments into chunks of at most 512
// KiB. Pure arithmetic, in bytes on the wire.
class Segments {
 public:
  // Returns `count` segments of whole elements, one after the other; the first (elements mod count)
  // are one element longer.
  static Segments Even(const BucketSpec& spec, int count);
  // Segment s is the part whose fold begins with rank s; `blocks` are those of the bucket's layout.
  static Segments OfFold(Bucket bucket, const BucketSpec& spec, const FoldBlocks& blocks,
                         int world_size);

  int count() const { return static_cast<int>(segments_.size()); }
  const std::vector<HopChunk>& Of(int segment) const;
  uint64_t BytesOf(int segment) const;

  struct Position {
    int segment = 0;
    size_t hop_chunk = 0;  // in its segment
  };
  // Returns the chunk that begins at `offset`, if there is one.
  absl::optional<Position> Find(uint64_t offset) const;

 private:
  explicit Segments(int count) : segments_(static_cast<size_t>(count)) {}
  void Add(int segment, const FoldRange& range);

  std::vector<std::vector<HopChunk>> segments_;
  std::map<uint64_t, Position> positions_;  // by offset
};

// The plan of one bucket.
struct BucketPlan {
  const HopPlan& hops;
  Segments segments;

  uint64_t BytesOf(const Hop& hop) const { return segments.BytesOf(hop.segment); }
};

// The plans of one worker in one view. Thread-safe.
class HopPlans {
 public:
  // `topology` must outlive this object.
  HopPlans(const Topology* topology, const View& view)
      : topology_(*topology), view_(view), places_(view) {}

  // Makes the plans of a layout, whose buckets are on the wire. Call it before the methods below.
  void Add(LayoutId layout, const std::vector<BucketSpec>& specs);
  // Valid as long as this object.
  const BucketPlan& Of(const BucketKey& key) const;
  // Returns the bytes of a hop.
  uint64_t BytesOf(const EarlyChunks::Key& hop) const;

  // Judges a chunk from another worker, of any bucket of `buckets`, and returns its hop. Errors:
  // InvalidArgument or DataLoss as in JudgeHeader and CheckPayload; InvalidArgument if it is no
  // chunk, or not of a hop from another worker to this one.
  absl::StatusOr<EarlyChunks::Key> Judge(const Chunk& chunk,
                                         const std::vector<BucketSpec>& buckets) const;

 private:
  const HopPlan& HopsOf(const BucketSpec& spec) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Segments Cut(Bucket bucket, const BucketSpec& spec, const FoldBlocks& blocks, int count) const;

  const Topology& topology_;
  const View view_;
  const Places places_;
  mutable Mutex mutex_;
  std::map<std::pair<v1::Collective, Rank>, HopPlan> hops_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<LayoutId, Bucket>, BucketPlan> buckets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_HOPS_HOP_PLANS_H_
