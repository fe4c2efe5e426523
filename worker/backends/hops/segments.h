#ifndef GRADWIRE_WORKER_BACKENDS_HOPS_SEGMENTS_H_
#define GRADWIRE_WORKER_BACKENDS_HOPS_SEGMENTS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "common/fold/blocks.h"
#include "common/wire/layout.h"

namespace gradwire {

// What goes in one message: some ranges of a bucket that take the same way.
struct Parcel {
  std::vector<FoldRange> ranges;  // ascending
  uint64_t bytes = 0;             // of all
};

// How a bucket is cut into segments, each of which goes its own way, and these into parcels of at
// most 512 KiB. Pure arithmetic, in bytes on the wire.
class Segments {
 public:
  // `count` segments of whole elements, one behind the other; the first (elements mod count) are
  // one element longer.
  static Segments Even(const BucketSpec& spec, int count);
  // Segment s is what is folded from rank s on; `blocks` are those of the bucket's layout.
  static Segments OfFold(Bucket bucket, const BucketSpec& spec, const FoldBlocks& blocks,
                         int world_size);

  int count() const { return static_cast<int>(segments_.size()); }
  const std::vector<Parcel>& Of(int segment) const;
  uint64_t BytesOf(int segment) const;

  struct Place {
    int segment = 0;
    size_t parcel = 0;  // in its segment
  };
  // The parcel that begins at `offset`; none if there is none.
  absl::optional<Place> Find(uint64_t offset) const;

 private:
  explicit Segments(int count) : segments_(static_cast<size_t>(count)) {}
  void Add(int segment, const FoldRange& range);

  std::vector<std::vector<Parcel>> segments_;
  std::map<uint64_t, Place> places_;  // by offset
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_HOPS_SEGMENTS_H_
