#include "worker/backends/fold/compressors.h"

namespace gradwire {

Compressor* Compressors::Of(LayoutId layout, Rank rank, Bucket bucket, uint64_t elements) {
  MutexLock lock(&mutex_);
  std::unique_ptr<Compressor>& made = made_[{layout, rank, bucket}];
  if (made == nullptr) made = MakeCompressor(compression_, elements);
  return made.get();
}

uint64_t Compressors::state_bytes() const {
  MutexLock lock(&mutex_);
  uint64_t bytes = 0;
  for (const auto& [key, compressor] : made_) {
    for (const absl::Span<float> part : compressor->state()) bytes += part.size() * sizeof(float);
  }
  return bytes;
}

}  // namespace gradwire
