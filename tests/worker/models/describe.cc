#include "tests/worker/models/describe.h"

#include "worker/ddp/model_layout.h"

namespace gradwire::testing {
namespace {

nlohmann::json Describe(const std::string& kind, const std::string& name,
                        const torch::Tensor& tensor) {
  return {{"kind", kind},
          {"name", name},
          {"shape", tensor.sizes().vec()},
          {"sha256", Sha256({tensor.detach().contiguous()})}};
}

}  // namespace

std::vector<nlohmann::json> DescribeTensors(const torch::nn::Module& model) {
  std::vector<nlohmann::json> all;
  for (const auto& entry : model.named_parameters()) {
    all.push_back(Describe("parameter", entry.key(), entry.value()));
  }
  for (const auto& entry : model.named_buffers()) {
    all.push_back(Describe("buffer", entry.key(), entry.value()));
  }
  return all;
}

}  // namespace gradwire::testing
