#ifndef GRADWIRE_COMMON_TENSORS_STORED_TENSOR_H_
#define GRADWIRE_COMMON_TENSORS_STORED_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace gradwire {

enum class TensorType {
  kFloat64,
  kFloat32,
  kFloat16,
  kBfloat16,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUint8,
  kBool
};

// A type's names in file formats.
struct TensorTypeRow {
  TensorType type;
  const char* name;     // in safetensors: "F32"
  const char* storage;  // module and class in a file of torch.save: "torch FloatStorage"
  int64_t bytes;        // of an element
};

const TensorTypeRow& RowOf(TensorType type);
// Returns the type with this name in safetensors, or none.
absl::optional<TensorType> FindTensorType(absl::string_view name);
// Returns the type with this storage in a file of torch.save, or none.
absl::optional<TensorType> FindStorageType(absl::string_view storage);

// A tensor without its values. These are little endian, in row-major order, without gaps.
struct StoredTensor {
  std::string key;
  TensorType type = TensorType::kFloat32;
  std::vector<int64_t> shape;  // empty: one element
};

bool operator==(const StoredTensor& a, const StoredTensor& b);

// Returns the bytes of a tensor's values. None if a size is negative, or if the bytes or the
// strides do not fit int64.
absl::optional<int64_t> BytesOf(const std::vector<int64_t>& shape, TensorType type);

// Returns "F32 [64, 3, 3, 3]".
std::string Describe(const StoredTensor& tensor);

// Returns the index of the first element that is infinite or no number, or -1. `bytes`: whole
// elements of `type`, aligned or not. Integers are always finite.
int64_t FindNonFinite(TensorType type, absl::string_view bytes);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TENSORS_STORED_TENSOR_H_
