#include "tests/worker/run/training.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "tests/cluster/backend_cluster.h"
#include "worker/ddp/hash.h"

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

Batches::Batches(int64_t steps, int64_t stride, int64_t first, int64_t size)
    : steps_(steps), stride_(stride), first_(first), size_(size) {
  torch::Generator generator = at::detail::createCPUGenerator(9);
  images_ = torch::randn({steps * stride, 3, 8, 8}, generator);
  labels_ = torch::randint(0, 10, {steps * stride}, generator, torch::kInt64);
}

absl::StatusOr<Batch> Batches::Next() {
  if (next_ == steps_) return absl::OutOfRangeError("done");
  const int64_t begin = next_ * stride_ + first_;
  return Batch{Step(static_cast<uint64_t>(next_++)), 0, 0, images_.narrow(0, begin, size_),
               labels_.narrow(0, begin, size_)};
}

absl::Status RunTrainer(Trainer& trainer, Batches batches, Synchronizer& sync,
                        const Trainer::OnStep& on_step) {
  return trainer.Run([&] { return batches.Next(); }, sync, on_step, [] { return false; });
}

std::shared_ptr<Model> TrainRanks(const Training& training) {
  std::vector<std::shared_ptr<Model>> models;
  std::vector<std::unique_ptr<Trainer>> trainers;
  for (int rank = 0; rank < training.ranks; ++rank) {
    models.push_back(training.make());
    trainers.push_back(std::make_unique<Trainer>(models.back(), training.options));
  }
  BackendCluster cluster(training.backend, training.ranks, trainers[0]->BucketSpecs());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < training.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto sync = MakeSynchronizer(training.sync, &cluster.backend(rank)).value();
      const absl::Status status = RunTrainer(
          *trainers[rank], Batches(training.steps, 4 * training.ranks, 4 * rank, 4), *sync);
      EXPECT_TRUE(status.ok()) << status;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& model : models) EXPECT_EQ(HashOf(*model), HashOf(*models[0]));
  return models[0];
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
