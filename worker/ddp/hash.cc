#include "worker/ddp/hash.h"

#include <openssl/evp.h>

#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace gradwire {

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

}  // namespace gradwire
