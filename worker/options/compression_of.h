#ifndef GRADWIRE_WORKER_OPTIONS_COMPRESSION_OF_H_
#define GRADWIRE_WORKER_OPTIONS_COMPRESSION_OF_H_

#include "absl/status/statusor.h"
#include "common/compress/compression.h"
#include "worker/options/worker_options.h"

namespace gradwire {

// What --compress and the optimiser's momentum ask for. InvalidArgument as ParseCompression.
absl::StatusOr<Compression> CompressionOf(const WorkerOptions& options);

// The type of gradients on the wire: the codec's, or that of --wire.
absl::StatusOr<v1::DType> WireTypeOf(const WorkerOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_COMPRESSION_OF_H_
