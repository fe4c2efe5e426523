#ifndef GRADWIRE_COMMON_TENSORS_TORCH_ARCHIVE_H_
#define GRADWIRE_COMMON_TENSORS_TORCH_ARCHIVE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/output_file.h"

namespace gradwire {

// Passes all values of a tensor, in order. An error ends the file.
using TensorSource = std::function<absl::Status(const WritePiece& write)>;

// The values of one tensor.
struct TensorStorage {
  int64_t bytes = 0;
  TensorSource source;
};

// Writes a file of torch.save (1.6 and later) piece by piece: a zip archive, uncompressed, of
// data.pkl and of data/NUMBER, the bytes of each storage. torch.load reads it, also with
// weights_only. `pickle`: PickleOf a value with PickledTensors of these storages. Returns the first
// error of a source, and Internal if one passes another number of bytes.
absl::Status StreamTorchArchive(absl::string_view pickle,
                                const std::vector<TensorStorage>& storages,
                                const WritePiece& write);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TENSORS_TORCH_ARCHIVE_H_
