#include "worker/weights/tensor_types.h"

#include <utility>

namespace gradwire {
namespace {

constexpr std::pair<TensorType, torch::ScalarType> kTensorTypes[] = {
    {TensorType::kFloat64, torch::kDouble}, {TensorType::kFloat32, torch::kFloat},
    {TensorType::kFloat16, torch::kHalf},   {TensorType::kBfloat16, torch::kBFloat16},
    {TensorType::kInt64, torch::kLong},     {TensorType::kInt32, torch::kInt},
    {TensorType::kInt16, torch::kShort},    {TensorType::kInt8, torch::kChar},
    {TensorType::kUint8, torch::kByte},     {TensorType::kBool, torch::kBool}};

}  // namespace

torch::ScalarType ToTorch(TensorType type) { return kTensorTypes[static_cast<int>(type)].second; }

absl::optional<TensorType> FromTorch(torch::ScalarType type) {
  for (const auto& [stored, scalar] : kTensorTypes) {
    if (scalar == type) return stored;
  }
  return absl::nullopt;
}

StoredTensor Describe(const std::string& key, const torch::Tensor& tensor) {
  return {key, FromTorch(tensor.scalar_type()).value(), tensor.sizes().vec()};
}

}  // namespace gradwire
