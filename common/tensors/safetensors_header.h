#ifndef GRADWIRE_COMMON_TENSORS_SAFETENSORS_HEADER_H_
#define GRADWIRE_COMMON_TENSORS_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tensors/stored_tensor.h"

namespace gradwire {

// A safetensors file, little endian:
//
//   8 bytes   N, the length of the JSON
//   N bytes   JSON: {KEY: {"dtype": "F32", "shape": [2, 3], "data_offsets": [BEGIN, END]}, …},
//             offsets counted from the end of the JSON; "__metadata__" is ignored
//   the rest  the values, in row-major order

// A tensor of a file, and where its values begin, counted from the end of the header.
struct PlacedTensor {
  StoredTensor spec;
  int64_t begin = 0;
  int64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<PlacedTensor> tensors;  // by `begin`
  int64_t bytes = 0;                  // of the length and the JSON
};

// Bytes that hold the length of the JSON.
inline constexpr int64_t kSafetensorsLengthBytes = 8;

// Reads the header from `head`, the first bytes of a file of `file_bytes`; `head` must have the
// whole header or the whole file. InvalidArgument, with what was got and expected: the file is cut
// short, its header is no such JSON, a type is unknown, or offsets are outside of the file, do not
// fit the shape, or overlap.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view head,
                                                         int64_t file_bytes);

// Returns length and JSON of a file with these tensors, one after the other in this order. The size
// is a multiple of 8. Keys must differ.
std::string MakeSafetensorsHeader(const std::vector<StoredTensor>& tensors);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TENSORS_SAFETENSORS_HEADER_H_
