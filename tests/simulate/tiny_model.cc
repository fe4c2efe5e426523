#include "tests/simulate/tiny_model.h"

#include <utility>

#include "common/wire/chunk.h"
#include "tests/simulate/setup.h"

namespace gradwire::simulate {
namespace {

constexpr int64_t kSamples = 2;
constexpr int64_t kMostRanks = 16;

torch::nn::Linear MakeLinear(int64_t in, int64_t out, torch::Generator generator) {
  torch::nn::Linear linear(torch::nn::LinearOptions(in, out));
  torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : linear->parameters()) {
    parameter.copy_(torch::randn(parameter.sizes(), generator) * 0.3);
  }
  return linear;
}

struct Data {
  torch::Tensor images;
  torch::Tensor labels;
};

const Data& AllData() {
  static const auto* const data = [] {
    torch::Generator generator = at::detail::createCPUGenerator(9);
    const int64_t samples = kMostSteps * kMostRanks * kSamples;
    return new Data{torch::randn({samples, 1, 1, TinyModel::kInputs}, generator),
                    torch::randint(0, TinyModel::kClasses, {samples}, generator, torch::kInt64)};
  }();
  return *data;
}

}  // namespace

TinyModel::TinyModel(bool wide) {
  torch::Generator generator = at::detail::createCPUGenerator(5);
  const int64_t hidden = wide ? 600 : 8;
  first_ = register_module("first", MakeLinear(kInputs, hidden, generator));
  second_ = register_module("second", MakeLinear(hidden, kInputs, generator));
  third_ = register_module("third", MakeLinear(kInputs, kClasses, generator));
  running_ = register_buffer("running", torch::zeros({hidden}));
}

torch::Tensor TinyModel::First(const torch::Tensor& images) {
  const torch::Tensor made = first_(images.flatten(1));
  const torch::Tensor centred = torch::tanh(made - running_.clone());
  torch::NoGradGuard no_grad;
  running_.mul_(0.9).add_(made.detach().mean(0), 0.1);
  return centred;
}

torch::Tensor TinyModel::Second(const torch::Tensor& hidden) {
  return torch::tanh(second_(hidden));
}

torch::Tensor TinyModel::Third(const torch::Tensor& hidden) { return third_(hidden); }

torch::Tensor TinyModel::forward(torch::Tensor images) {
  return Third(Second(First(std::move(images))));
}

std::vector<Stage> TinyModel::stages() {
  return {{[this](const torch::Tensor& x) { return First(x); }, first_->parameters()},
          {[this](const torch::Tensor& x) { return Second(x); }, second_->parameters()},
          {[this](const torch::Tensor& x) { return Third(x); }, third_->parameters()}};
}

Batch BatchOf(Step step, Rank rank) {
  const int64_t first = (static_cast<int64_t>(step.value()) * kMostRanks + rank.value()) * kSamples;
  Batch batch;
  batch.step = step;
  batch.images = AllData().images.narrow(0, first, kSamples);
  batch.labels = AllData().labels.narrow(0, first, kSamples);
  return batch;
}

uint64_t DigestOf(const std::vector<torch::Tensor>& tensors) {
  ByteSpans pieces;
  for (const torch::Tensor& tensor : tensors) {
    pieces.push_back({static_cast<const uint8_t*>(tensor.data_ptr()), tensor.nbytes()});
  }
  return Checksum(pieces);
}

}  // namespace gradwire::simulate
