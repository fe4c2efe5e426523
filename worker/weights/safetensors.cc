#include "worker/weights/safetensors.h"

#include <cstring>
#include <utility>
#include <vector>

#include "common/base/output_file.h"
#include "common/tensors/safetensors_header.h"
#include "worker/weights/tensor_types.h"

namespace gradwire {

absl::StatusOr<Weights> ParseSafetensors(absl::string_view bytes) {
  const auto file_bytes = static_cast<int64_t>(bytes.size());
  const absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(bytes, file_bytes);
  if (!header.ok()) return header.status();
  const absl::string_view values = bytes.substr(static_cast<size_t>(header->bytes));
  Weights weights;
  for (const PlacedTensor& placed : header->tensors) {
    torch::Tensor tensor = torch::empty(placed.spec.shape, ToTorch(placed.spec.type));
    std::memcpy(tensor.data_ptr(), values.data() + placed.begin,
                static_cast<size_t>(placed.end - placed.begin));
    weights.emplace(placed.spec.key, std::move(tensor));
  }
  return weights;
}

void StreamSafetensors(const Weights& weights, const WritePiece& write) {
  std::vector<StoredTensor> tensors;
  for (const auto& [key, tensor] : weights) tensors.push_back(Describe(key, tensor));
  write(MakeSafetensorsHeader(tensors));
  for (const auto& [key, tensor] : weights) {
    const torch::Tensor row_major = tensor.contiguous();
    write(absl::string_view(static_cast<const char*>(row_major.data_ptr()), row_major.nbytes()));
  }
}

absl::Status WriteSafetensors(const std::string& path, const Weights& weights) {
  return ReplaceFile(path, [&weights](const WritePiece& write) {
    StreamSafetensors(weights, write);
    return absl::OkStatus();
  });
}

}  // namespace gradwire
