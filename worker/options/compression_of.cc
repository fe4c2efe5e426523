#include "worker/options/compression_of.h"

#include "common/wire/layout.h"
#include "worker/options/traits.h"

namespace gradwire {

absl::StatusOr<Compression> CompressionOf(const WorkerOptions& options) {
  absl::StatusOr<Compression> compression = ParseCompression(options.compress);
  if (!compression.ok()) return compression;
  compression->warmup_steps = options.compress_warmup;
  if (compression->has_density && TraitsOfOptimizer(options.optimizer).has_momentum) {
    compression->momentum = static_cast<float>(options.momentum);
  }
  return compression;
}

absl::StatusOr<v1::DType> WireTypeOf(const WorkerOptions& options) {
  const absl::StatusOr<Compression> compression = CompressionOf(options);
  if (!compression.ok()) return compression.status();
  if (compression->is_on()) return compression->dtype;
  return ParseWire(options.wire);
}

}  // namespace gradwire
