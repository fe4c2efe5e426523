#ifndef GRADWIRE_WORKER_WEIGHTS_SAFETENSORS_H_
#define GRADWIRE_WORKER_WEIGHTS_SAFETENSORS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/output_file.h"
#include "worker/weights/weights.h"

namespace gradwire {

// The format is described in common/tensors/safetensors_header.h.

// Returns copies of the tensors in a file's `bytes`. Errors of ParseSafetensorsHeader.
absl::StatusOr<Weights> ParseSafetensors(absl::string_view bytes);

// Writes a file of `weights` piece by piece: the header, then each tensor's values from its own
// memory. Copies at most one tensor at a time, if it is not contiguous.
void StreamSafetensors(const Weights& weights, const WritePiece& write);

// Writes such a file. Returns Internal "cannot write …".
absl::Status WriteSafetensors(const std::string& path, const Weights& weights);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_WEIGHTS_SAFETENSORS_H_
