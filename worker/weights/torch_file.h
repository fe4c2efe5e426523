#ifndef GRADWIRE_WORKER_WEIGHTS_TORCH_FILE_H_
#define GRADWIRE_WORKER_WEIGHTS_TORCH_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/output_file.h"
#include "worker/weights/weights.h"

namespace gradwire {

// The format of torch.save (1.6 and later) for a state dict: a zip archive of data.pkl, a pickle of
// {KEY: tensor of a storage}, and of data/NUMBER, the bytes of each storage.

// Whether a file's `bytes` are such an archive, complete or not.
bool IsTorchFile(absl::string_view bytes);

// Returns copies of the tensors in a file's `bytes`. InvalidArgument, with what was got and
// expected: the archive is damaged or cut short, is no state dict (names a key whose value is no
// tensor), or a tensor is outside of its storage.
absl::StatusOr<Weights> ParseTorchFile(absl::string_view bytes);

// Writes a file that torch.load reads, also with weights_only, piece by piece: each tensor's values
// from its own memory. Copies at most one tensor at a time, if it is not contiguous.
absl::Status StreamTorchFile(const Weights& weights, const WritePiece& write);

// Writes such a file. Returns Internal "cannot write …".
absl::Status WriteTorchFile(const std::string& path, const Weights& weights);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_WEIGHTS_TORCH_FILE_H_
