#ifndef GRADWIRE_TESTS_LIBRARY_MODELS_H_
#define GRADWIRE_TESTS_LIBRARY_MODELS_H_

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace gradwire::testing {

using torch::nn::Linear;

struct Batch {
  torch::Tensor x;  // [samples, 4]
  torch::Tensor y;  // [samples, 2]
};

// 5 samples, a pure function of `number`; and several batches as one.
Batch BatchOf(int number);
Batch BatchesOf(const std::vector<int>& numbers);

// Two layers; weights are a pure function of `seed`, whatever other threads do.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(uint64_t seed);
  torch::Tensor forward(torch::Tensor x);
  Linear first{nullptr};
  Linear last{nullptr};
};
TORCH_MODULE(Net);

// With BatchNorm, whose statistics are buffers.
struct NormNetImpl : torch::nn::Module {
  NormNetImpl();
  torch::Tensor forward(torch::Tensor x);
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(NormNet);

// Mean squared error.
torch::Tensor LossOf(Net& net, const Batch& batch);

// Within 1e-5.
void ExpectSameParameters(const torch::nn::Module& got, const torch::nn::Module& expected);
void ExpectSameGradients(const torch::nn::Module& got, const torch::nn::Module& expected);

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_LIBRARY_MODELS_H_
