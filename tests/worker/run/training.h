#ifndef GRADWIRE_TESTS_WORKER_RUN_TRAINING_H_
#define GRADWIRE_TESTS_WORKER_RUN_TRAINING_H_

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/run/trainer.h"

namespace gradwire::testing {

// A small model whose loss over a batch is the mean of the samples' losses: no
// BatchNorm, so N ranks are exactly one process with all samples. No stages.
class PlainModel : public Model {
 public:
  PlainModel();
  torch::Tensor forward(torch::Tensor images) override;
  ImageShape image_shape() const override { return {3, 8, 8}; }

 private:
  torch::nn::Conv2d conv_{nullptr};
  torch::nn::Linear linear_{nullptr};
};

// Three stages with BatchNorm; a parameter that is frozen, one that only even
// forward passes use, and one that no stage names.
class StagedModel : public Model {
 public:
  StagedModel();
  torch::Tensor forward(torch::Tensor images) override;
  ImageShape image_shape() const override { return {3, 8, 8}; }
  std::vector<Stage> stages() override;

  torch::Tensor frozen, sometimes, unnamed;

 private:
  torch::Tensor Convolve(const torch::Tensor& images);
  torch::Tensor Hidden(const torch::Tensor& maps);
  torch::Tensor Classify(const torch::Tensor& hidden);

  torch::nn::Conv2d conv_{nullptr};
  torch::nn::BatchNorm2d norm_{nullptr};
  torch::nn::Linear hidden_{nullptr};
  torch::nn::Linear classes_{nullptr};
  int64_t passes_ = 0;
};

// Two stages with BatchNorm and dropout with probability `dropout`; 0 draws nothing. (Threads
// of a process share torch's generator.)
class RandomModel : public Model {
 public:
  explicit RandomModel(double dropout);
  torch::Tensor forward(torch::Tensor images) override;
  ImageShape image_shape() const override { return {3, 8, 8}; }
  std::vector<Stage> stages() override;

 private:
  torch::Tensor Convolve(const torch::Tensor& images);
  torch::Tensor Classify(const torch::Tensor& maps);

  const double dropout_;
  torch::nn::Conv2d conv_{nullptr};
  torch::nn::BatchNorm2d norm_{nullptr};
  torch::nn::Linear classes_{nullptr};
};

// Batches of a fixed random stream, of which each step takes `stride` samples.
class Batches {
 public:
  // `steps` batches of `size` samples in a row, from sample `first` of each step's.
  Batches(int64_t steps, int64_t stride, int64_t first, int64_t size)
      : Batches(steps, stride, std::vector<int64_t>{first}, size) {}
  // Those of `ranks`, in their order, of four samples for each of `world_size` ranks.
  Batches(int64_t steps, int world_size, const std::vector<Rank>& ranks);
  absl::StatusOr<Batch> Next();

 private:
  Batches(int64_t steps, int64_t stride, std::vector<int64_t> firsts, int64_t size);

  int64_t steps_, stride_, size_;
  std::vector<int64_t> firsts_;  // samples of a step where its batches begin
  int64_t next_ = 0;
  torch::Tensor images_, labels_;
};

absl::Status RunTrainer(
    Trainer& trainer, Batches batches, Synchronizer* sync,
    const Trainer::OnStep& on_step = [](absl::Span<const StepRecord>) {});

// What ranks on threads of this process train, four samples each a step.
struct Training {
  std::string sync = "ddp";
  std::string backend = "coordinator";
  int ranks = 3;
  int64_t steps = 3;
  TrainerOptions options;  // but for updates_late
  std::function<std::shared_ptr<Model>()> make = [] { return std::make_shared<StagedModel>(); };
  bool barrier = false;
  std::vector<std::vector<int>> deal = {};  // ranks by worker; empty: one each
  SyncOptions sync_options = {};            // but for the number of steps
};

// Trains; returns the model of rank 0's worker. Fails the test if workers differ at the end.
std::shared_ptr<Model> TrainRanks(const Training& training);
// The same, without a look at whether they differ; returns every worker's model.
std::vector<std::shared_ptr<Model>> TrainAllRanks(const Training& training);

// Of parameters and buffers.
std::string HashOf(const Model& model);

void ExpectNear(const Model& got, const Model& expected, double relative);

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_WORKER_RUN_TRAINING_H_
