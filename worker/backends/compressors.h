#ifndef GRADWIRE_WORKER_BACKENDS_COMPRESSORS_H_
#define GRADWIRE_WORKER_BACKENDS_COMPRESSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/compress/codec.h"
#include "common/compress/compression.h"
#include "common/compress/compression_totals.h"
#include "common/wire/layout.h"
#include "worker/backends/kept_values.h"

namespace gradwire {

// The compressors of this worker's ranks, one for each rank and bucket, made on demand. They
// outlive views, because the residual of one step belongs to a later one. Thread-safe.
class Compressors {
 public:
  explicit Compressors(const Compression& compression) : compression_(compression) {}

  // Returns the compressor of a bucket of `elements`; it lives as long as this object.
  Compressor* Of(LayoutId layout, Rank rank, Bucket bucket, uint64_t elements);

  // Adds the state of the compressors of `ranks` for each coded bucket of a layout. `buckets`: on
  // the wire or in float32; their bytes are the same.
  void AddKept(LayoutId layout, absl::Span<const BucketSpec> buckets, absl::Span<const Rank> ranks,
               std::vector<KeptValues>* kept);

 private:
  using Key = std::tuple<LayoutId, Rank, Bucket>;

  const Compression compression_;
  Mutex mutex_;
  std::map<Key, std::unique_ptr<Compressor>> made_ ABSL_GUARDED_BY(mutex_);
};

// Encodes `values`, which begin at element `first` of a bucket, as a term of `step`. Sets `totals`
// to its share of the worker's totals, with the error that `compressor` keeps of them if this step
// measures it.
std::vector<uint8_t> EncodeTerm(Compressor* compressor, Step step, uint64_t first,
                                absl::Span<const float> values, CompressionTotals* totals);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_COMPRESSORS_H_
