#ifndef GRADWIRE_WORKER_WEIGHTS_TENSOR_TYPES_H_
#define GRADWIRE_WORKER_WEIGHTS_TENSOR_TYPES_H_

#include <torch/torch.h>

#include <string>

#include "absl/types/optional.h"
#include "common/tensors/stored_tensor.h"

namespace gradwire {

torch::ScalarType ToTorch(TensorType type);
// Returns none for a type that no file has, such as complex numbers.
absl::optional<TensorType> FromTorch(torch::ScalarType type);

// Describes a tensor, whose type must be one of those.
StoredTensor Describe(const std::string& key, const torch::Tensor& tensor);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_WEIGHTS_TENSOR_TYPES_H_
