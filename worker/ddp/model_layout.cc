#include "worker/ddp/model_layout.h"

#include <openssl/evp.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace gradwire {

LowRankPlan LowRankPlanOf(const Reducer& reducer, uint64_t rank) {
  std::vector<std::vector<std::vector<int64_t>>> shapes(reducer.gradient_buckets());
  for (size_t bucket = 0; bucket < shapes.size(); ++bucket) {
    for (const torch::Tensor& tensor : reducer.ParametersOf(bucket)) {
      shapes[bucket].push_back(tensor.sizes().vec());
    }
  }
  std::vector<BucketSpec> others = reducer.BucketSpecs();
  others.erase(others.begin(), others.begin() + static_cast<ptrdiff_t>(shapes.size()));
  return LowRankPlan(shapes, std::move(others), rank);
}

std::string Sha256(const std::vector<torch::Tensor>& tensors) {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                  EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  for (const torch::Tensor& tensor : tensors) {
    EVP_DigestUpdate(context.get(), tensor.data_ptr(), tensor.nbytes());
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(context.get(), digest, &size);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

std::string FloatsInBase64(const std::vector<torch::Tensor>& tensors) {
  std::string bytes;
  for (const torch::Tensor& tensor : tensors) {
    if (tensor.scalar_type() != torch::kFloat32) continue;
    bytes.append(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
  }
  return absl::Base64Escape(bytes);
}

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
