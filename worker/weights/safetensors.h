#ifndef GRADWIRE_WORKER_WEIGHTS_SAFETENSORS_H_
#define GRADWIRE_WORKER_WEIGHTS_SAFETENSORS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/output_file.h"
#include "worker/weights/weights.h"

namespace gradwire {

// A file of tensors, little endian:
//
//   8 bytes   N, the length of the header
//   N bytes   JSON: {KEY: {"dtype": "F32", "shape": [2, 3], "data_offsets": [BEGIN, END]}, …},
//             offsets counted from the end of the header; "__metadata__" is ignored
//   the rest  the values, in row-major order

// Returns copies of the tensors in a file's `bytes`. InvalidArgument, with what was got and
// expected: the file is cut short, its header is no such JSON, a type is unknown, or offsets are
// outside of the file, do not fit the shape, or overlap.
absl::StatusOr<Weights> ParseSafetensors(absl::string_view bytes);

// Writes a file of `weights` piece by piece: the header, then each tensor's values from its own
// memory. Copies at most one tensor at a time, if it is not contiguous.
void StreamSafetensors(const Weights& weights, const WritePiece& write);

// Writes such a file. Returns Internal "cannot write …".
absl::Status WriteSafetensors(const std::string& path, const Weights& weights);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_WEIGHTS_SAFETENSORS_H_
