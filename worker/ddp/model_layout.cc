#include "worker/ddp/model_layout.h"

namespace gradwire {
namespace {

TensorSpec SpecOf(const std::string& name, const torch::Tensor& tensor, bool buffer) {
  const bool is_float = tensor.scalar_type() == torch::kFloat;
  const bool is_int64 = tensor.scalar_type() == torch::kLong;
  return {name, tensor.sizes().vec(),
          is_float   ? "float32"
          : is_int64 ? "int64"
                     : c10::toString(tensor.scalar_type()),
          buffer};
}

}  // namespace

Layout LayoutOf(const torch::nn::Module& model) {
  Layout layout;
  for (const auto& item : model.named_parameters()) {
    layout.push_back(SpecOf(item.key(), item.value(), false));
  }
  for (const auto& item : model.named_buffers()) {
    layout.push_back(SpecOf(item.key(), item.value(), true));
  }
  return layout;
}

}  // namespace gradwire
