#ifndef GRADWIRE_WORKER_BACKENDS_FOLD_COMPRESSORS_H_
#define GRADWIRE_WORKER_BACKENDS_FOLD_COMPRESSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/compress/codec.h"

namespace gradwire {

// The compressors of this worker's ranks, one for each rank and bucket, made when first asked
// for. They outlive views, as what is left out of one step belongs to a later one. Thread-safe.
class Compressors {
 public:
  explicit Compressors(const Compression& compression) : compression_(compression) {}

  // Of a bucket of `elements`; lives as long as this.
  Compressor* Of(LayoutId layout, Rank rank, Bucket bucket, uint64_t elements);

  // Bytes that they keep from step to step.
  uint64_t state_bytes() const;

 private:
  using Key = std::tuple<LayoutId, Rank, Bucket>;

  const Compression compression_;
  mutable Mutex mutex_;
  std::map<Key, std::unique_ptr<Compressor>> made_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_FOLD_COMPRESSORS_H_
