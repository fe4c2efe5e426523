#include "tests/library/models.h"

#include <gtest/gtest.h>

namespace gradwire::testing {
namespace {

torch::Tensor Random(torch::IntArrayRef sizes, uint64_t seed) {
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(seed);
  return torch::randn(sizes, generator, torch::kFloat);
}

}  // namespace

Batch BatchOf(int number) {
  const auto seed = static_cast<uint64_t>(number);
  return {Random({5, 4}, 100 + seed), Random({5, 2}, 200 + seed)};
}

Batch BatchesOf(const std::vector<int>& numbers) {
  std::vector<torch::Tensor> x;
  std::vector<torch::Tensor> y;
  for (const int number : numbers) {
    x.push_back(BatchOf(number).x);
    y.push_back(BatchOf(number).y);
  }
  return {torch::cat(x), torch::cat(y)};
}

NetImpl::NetImpl(uint64_t seed)
    : first(register_module("first", Linear(4, 8))), last(register_module("last", Linear(8, 2))) {
  const torch::NoGradGuard values_only;
  uint64_t next = 1000 * seed;
  for (torch::Tensor& parameter : parameters()) {
    parameter.copy_(0.3 * Random(parameter.sizes(), next++));
  }
}

torch::Tensor NetImpl::forward(torch::Tensor x) {
  return last->forward(torch::tanh(first->forward(x)));
}

NormNetImpl::NormNetImpl() : norm(register_module("norm", torch::nn::BatchNorm1d(4))) {}

torch::Tensor NormNetImpl::forward(torch::Tensor x) { return norm->forward(x); }

torch::Tensor LossOf(Net& net, const Batch& batch) {
  return torch::mse_loss(net->forward(batch.x), batch.y);
}

void ExpectSameParameters(const torch::nn::Module& got, const torch::nn::Module& expected) {
  const auto values = got.named_parameters();
  for (const auto& item : expected.named_parameters()) {
    EXPECT_TRUE(torch::allclose(values[item.key()], item.value(), 1e-5, 1e-5)) << item.key();
  }
}

void ExpectSameGradients(const torch::nn::Module& got, const torch::nn::Module& expected) {
  const auto values = got.named_parameters();
  for (const auto& item : expected.named_parameters()) {
    EXPECT_TRUE(torch::allclose(values[item.key()].grad(), item.value().grad(), 1e-5, 1e-5))
        << item.key();
  }
}

}  // namespace gradwire::testing
