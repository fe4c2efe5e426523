#include <gmock/gmock.h>
#include <torch/torch.h>

#include <utility>

#include "common/state/checkpoint_reader.h"
#include "common/state/checkpoint_writer.h"
#include "common/state/export.h"
#include "tests/support/oracle.h"
#include "tests/support/temp_dir.h"
#include "worker/learning/optimizer.h"
#include "worker/learning/sliced_optimizer.h"
#include "worker/weights/tensor_types.h"
#include "worker/weights/weights.h"

namespace gradwire {
namespace {

using testing::AskOracle;
using testing::TempDir;

constexpr double kLearningRate = 0.05;
constexpr int kSteps = 5;

struct TestBatch {
  torch::Tensor inputs;
  torch::Tensor labels;
};

std::vector<TestBatch> DrawBatches() {
  std::vector<TestBatch> batches;
  for (int i = 0; i < kSteps; ++i) {
    batches.push_back({torch::randn({8, 1, 8, 8}), torch::randint(3, {8}, torch::kLong)});
  }
  return batches;
}

// A small network and its optimizer.
class Training {
 public:
  explicit Training(const OptimizerOptions& options)
      : optimizer_(model->parameters(), FindOptimizer(options).value()) {}

  // Returns the loss of each batch before its update.
  std::vector<double> Train(const std::vector<TestBatch>& batches) {
    std::vector<double> losses;
    for (const TestBatch& batch : batches) {
      model->zero_grad();
      const torch::Tensor loss =
          torch::nn::functional::cross_entropy(model->forward(batch.inputs), batch.labels);
      loss.backward();
      std::vector<torch::Tensor> gradients;
      for (const torch::Tensor& parameter : model->parameters()) {
        gradients.push_back(parameter.grad().flatten());
      }
      optimizer_.Step(torch::cat(gradients), kLearningRate);
      losses.push_back(loss.item<double>());
    }
    return losses;
  }

  // Returns the optimizer's state of each parameter, with the keys of a checkpoint.
  std::vector<std::pair<std::string, torch::Tensor>> OptimizerState() const {
    const std::vector<torch::Tensor> state = optimizer_.State();
    const std::vector<std::string> names =
        state.size() == 1 ? std::vector<std::string>{"momentum_buffer"}
                          : std::vector<std::string>{"step", "exp_avg", "exp_avg_sq"};
    std::vector<std::pair<std::string, torch::Tensor>> entries;
    int64_t first = 0;
    for (const auto& parameter : model->named_parameters()) {
      const torch::Tensor& values = parameter.value();
      for (size_t i = 0; i < state.size(); ++i) {
        entries.emplace_back(
            parameter.key() + "/" + names[i],
            state[i].dim() == 0
                ? state[i]
                : state[i].narrow(0, first, values.numel()).view(values.sizes()).clone());
      }
      first += values.numel();
    }
    return entries;
  }

  torch::nn::Sequential model{torch::nn::Conv2d(1, 4, 3), torch::nn::BatchNorm2d(4),
                              torch::nn::ReLU(), torch::nn::Flatten(), torch::nn::Linear(144, 3)};

 private:
  SlicedOptimizer optimizer_;
};

// Writes a checkpoint of it and opens it.
std::unique_ptr<CheckpointReader> Save(const Training& training, const OptimizerOptions& options,
                                       const std::string& run_dir) {
  std::vector<StateSection> sections = {
      {kModelSection, {}}, {kOptimizerSection, {}}, {kRanksSection, {}}};
  std::vector<torch::Tensor> values;
  const auto add = [&](int section, const std::string& key, const torch::Tensor& tensor) {
    sections[section].tensors.push_back(Describe(key, tensor));
    values.push_back(tensor.detach().contiguous());
  };
  for (const auto& entry : training.model->named_parameters()) add(0, entry.key(), entry.value());
  for (const auto& [key, tensor] : training.OptimizerState()) add(1, key, tensor);
  for (const auto& entry : training.model->named_buffers()) {
    add(2, "0/buffers/" + entry.key(), entry.value());
  }
  for (const auto& entry : training.model->named_buffers()) {  // of which there is no trace then
    add(2, "1/buffers/" + entry.key(), entry.value() + 1);
  }
  // Small parts, so that tensors go through several.
  const StatePlan plan = StatePlan::Make(sections, 96, 1024).value();
  std::string bytes;
  for (const torch::Tensor& tensor : values) {
    bytes.append(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
  }
  auto writer = CheckpointWriter::Open(run_dir, 3, plan, &RealDisk()).value();
  size_t at = 0;
  for (size_t part = 0; part < plan.parts().size(); ++part) {
    const auto size = static_cast<size_t>(plan.parts()[part].bytes);
    EXPECT_TRUE(writer->Write(static_cast<int>(part), bytes.substr(at, size)).ok());
    at += size;
  }
  Manifest manifest;
  manifest.world_size = 1;
  manifest.threads = 1;
  manifest.optimizer = {options.name,
                        {{{{"lr", kLearningRate},
                           {"momentum", options.momentum},
                           {"weight_decay", options.weight_decay},
                           {"nesterov", options.nesterov ? 1 : 0}},
                          {}}}};
  return CheckpointReader::Open(writer->Publish(manifest).value()).value();
}

class CheckpointExport : public ::testing::TestWithParam<OptimizerOptions> {};

TEST_P(CheckpointExport, PyTorch_ContinuesWithTheSameLosses) {
  const TempDir dir;
  torch::manual_seed(1);
  Training training(GetParam());
  training.Train(DrawBatches());
  const auto checkpoint = Save(training, GetParam(), dir.path());
  const std::vector<TestBatch> batches = DrawBatches();
  Weights data;
  for (int i = 0; i < kSteps; ++i) {
    data["x" + std::to_string(i)] = batches[i].inputs;
    data["y" + std::to_string(i)] = batches[i].labels;
  }
  ASSERT_TRUE(WriteWeights(dir.File("data.pt"), data).ok());
  ASSERT_TRUE(ExportOptimizer(*checkpoint, dir.File("optimizer.pt")).ok());
  const std::vector<double> losses = training.Train(batches);
  for (const char* model : {"model.pt", "model.safetensors"}) {
    ASSERT_TRUE(ExportModel(*checkpoint, dir.File(model)).ok());
    const auto answer = AskOracle("resume.py", {dir.File(model), dir.File("optimizer.pt"),
                                                GetParam().name, dir.File("data.pt")});
    if (absl::IsFailedPrecondition(answer.status())) GTEST_SKIP() << answer.status().message();
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_EQ(answer->size(), losses.size());
    for (int i = 0; i < kSteps; ++i) EXPECT_NEAR((*answer)[i].get<double>(), losses[i], 1e-4) << i;
  }
}

TEST_P(CheckpointExport, LoadWeights_TakesBackTheModel) {
  const TempDir dir;
  Training training(GetParam());
  training.Train(DrawBatches());
  const auto checkpoint = Save(training, GetParam(), dir.path());
  for (const char* name : {"model.pt", "model.safetensors"}) {
    ASSERT_TRUE(ExportModel(*checkpoint, dir.File(name)).ok());
    const auto weights = ReadWeights(dir.File(name));
    ASSERT_TRUE(weights.ok()) << weights.status();
    Training other(GetParam());
    ASSERT_TRUE(LoadWeights(*weights, "", other.model.get()).ok());
    const Weights expected = WeightsOf(*training.model);
    for (const auto& [key, tensor] : WeightsOf(*other.model)) {
      EXPECT_TRUE(tensor.equal(expected.at(key))) << key;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, CheckpointExport,
                         ::testing::Values(OptimizerOptions{"sgd", 0.9, 1e-3, false},
                                           OptimizerOptions{"sgd", 0.8, 0, true},
                                           OptimizerOptions{"sgd", 0, 1e-2, false},
                                           OptimizerOptions{"adam", 0, 1e-3, false},
                                           OptimizerOptions{"adamw", 0, 1e-2, false}),
                         [](const auto& info) {
                           return info.param.name + std::to_string(info.index);
                         });

}  // namespace
}  // namespace gradwire
