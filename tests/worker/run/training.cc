#include "tests/worker/run/training.h"

#include <gtest/gtest.h>

#include <utility>

#include "worker/ddp/model_layout.h"

namespace gradwire::testing {

PlainModel::PlainModel() {
  torch::manual_seed(5);
  conv_ = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)));
  linear_ = register_module("linear", torch::nn::Linear(4 * 6 * 6, 10));
}

torch::Tensor PlainModel::forward(torch::Tensor images) {
  return linear_(torch::relu(conv_(images)).flatten(1));
}

StagedModel::StagedModel() {
  torch::manual_seed(5);
  unnamed = register_parameter("unnamed", torch::ones({4, 1, 1}));
  conv_ = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)));
  norm_ = register_module("norm", torch::nn::BatchNorm2d(4));
  frozen = register_parameter("frozen", torch::ones({5}), /*requires_grad=*/false);
  hidden_ = register_module("hidden", torch::nn::Linear(4 * 6 * 6, 20));
  sometimes = register_parameter("sometimes", torch::ones({20}));
  classes_ = register_module("classes", torch::nn::Linear(20, 10));
}

torch::Tensor StagedModel::Convolve(const torch::Tensor& images) {
  return torch::relu(norm_(conv_(images) * unnamed));
}

torch::Tensor StagedModel::Hidden(const torch::Tensor& maps) {
  const torch::Tensor hidden = torch::tanh(hidden_(maps.flatten(1))) * frozen.sum();
  return passes_++ % 2 == 0 ? hidden * sometimes : hidden;
}

torch::Tensor StagedModel::Classify(const torch::Tensor& hidden) { return classes_(hidden); }

torch::Tensor StagedModel::forward(torch::Tensor images) {
  return Classify(Hidden(Convolve(images)));
}

std::vector<Stage> StagedModel::stages() {
  std::vector<torch::Tensor> front = conv_->parameters();
  for (const torch::Tensor& parameter : norm_->parameters()) front.push_back(parameter);
  std::vector<torch::Tensor> middle = hidden_->parameters();
  middle.push_back(sometimes);
  middle.push_back(frozen);
  return {{[this](const torch::Tensor& x) { return Convolve(x); }, front},
          {[this](const torch::Tensor& x) { return Hidden(x); }, middle},
          {[this](const torch::Tensor& x) { return Classify(x); }, classes_->parameters()}};
}

RandomModel::RandomModel(double dropout) : dropout_(dropout) {
  torch::manual_seed(5);
  conv_ = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)));
  norm_ = register_module("norm", torch::nn::BatchNorm2d(4));
  classes_ = register_module("classes", torch::nn::Linear(4 * 6 * 6, 10));
}

torch::Tensor RandomModel::Convolve(const torch::Tensor& images) {
  return torch::dropout(torch::relu(norm_(conv_(images))), dropout_, is_training());
}

torch::Tensor RandomModel::Classify(const torch::Tensor& maps) {
  return classes_(torch::dropout(maps.flatten(1), dropout_, is_training()));
}

torch::Tensor RandomModel::forward(torch::Tensor images) { return Classify(Convolve(images)); }

std::vector<Stage> RandomModel::stages() {
  std::vector<torch::Tensor> front = conv_->parameters();
  for (const torch::Tensor& parameter : norm_->parameters()) front.push_back(parameter);
  return {{[this](const torch::Tensor& x) { return Convolve(x); }, front},
          {[this](const torch::Tensor& x) { return Classify(x); }, classes_->parameters()}};
}

namespace {

constexpr int64_t kSamplesOfARank = 4;

std::vector<int64_t> FirstsOf(const std::vector<Rank>& ranks) {
  std::vector<int64_t> firsts;
  for (const Rank rank : ranks) firsts.push_back(kSamplesOfARank * rank.value());
  return firsts;
}

}  // namespace

Batches::Batches(int64_t steps, int world_size, const std::vector<Rank>& ranks)
    : Batches(steps, kSamplesOfARank * world_size, FirstsOf(ranks), kSamplesOfARank) {}

Batches::Batches(int64_t steps, int64_t stride, std::vector<int64_t> firsts, int64_t size)
    : steps_(steps), stride_(stride), size_(size), firsts_(std::move(firsts)) {
  torch::Generator generator = at::detail::createCPUGenerator(9);
  images_ = torch::randn({steps * stride, 3, 8, 8}, generator);
  labels_ = torch::randint(0, 10, {steps * stride}, generator, torch::kInt64);
}

absl::StatusOr<Batch> Batches::Next() {
  const auto ranks = static_cast<int64_t>(firsts_.size());
  const int64_t step = next_ / ranks;
  if (step == steps_) return absl::OutOfRangeError("done");
  const int64_t begin = step * stride_ + firsts_[next_++ % ranks];
  return Batch{Step(static_cast<uint64_t>(step)), 0, 0, 0, images_.narrow(0, begin, size_),
               labels_.narrow(0, begin, size_)};
}

absl::Status RunTrainer(Trainer& trainer, Batches batches, Synchronizer* sync,
                        const Trainer::OnStep& on_step) {
  return trainer.Run([&] { return batches.Next(); }, sync, on_step, [] { return false; });
}

std::string HashOf(const Model& model) {
  return Sha256(model.parameters()) + Sha256(model.buffers());
}

void ExpectNear(const Model& got, const Model& expected, double relative) {
  const auto a = got.parameters(), b = expected.parameters();
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = (a[i] - b[i]).norm().item<double>();
    EXPECT_LE(difference, relative * b[i].norm().item<double>()) << "parameter " << i;
  }
}

}  // namespace gradwire::testing
