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
//             offsets counted from the end of the header; "__metadata__" is passed over
//   the rest  the values, in row-major order

// The tensors of a file's `bytes`, which are copied. InvalidArgument, with what was got and
// expected: it is cut short, its header is no such JSON, a type is unknown, or offsets lie
// outside of the file, do not hold the shape, or give tensors together more than the file has.
absl::StatusOr<Weights> ParseSafetensors(absl::string_view bytes);

// Gives a file of `weights` piece by piece: the header, then each tensor's values from its own
// memory. Copies nothing but one tensor at a time, if it is not contiguous.
void StreamSafetensors(const Weights& weights, const WritePiece& write);

// Writes such a file. Returns Internal "cannot write …".
absl::Status WriteSafetensors(const std::string& path, const Weights& weights);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_WEIGHTS_SAFETENSORS_H_
