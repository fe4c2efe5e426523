#include "worker/models/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/temp_dir.h"
#include "worker/models/layered_model.h"
#include "worker/run/trainer.h"
#include "worker/weights/weights.h"

namespace gradwire {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ModelOptions Frozen(const std::string& name, int64_t hidden) {
  ModelOptions options;
  options.name = name;
  options.hidden = hidden;
  options.freeze_features = true;
  return options;
}

int64_t Trained(const Model& model) {
  int64_t count = 0;
  for (const torch::Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad()) count += parameter.numel();
  }
  return count;
}

int64_t TrainedOf(const std::string& name, int64_t hidden) {
  return Trained(*PrepareModel(Frozen(name, hidden)).value());
}

TEST(PrepareModel, PrepareModel_FrozenFeatures_PublishedCounts) {
  EXPECT_EQ(TrainedOf("alexnet", 4096), 54575114);
  EXPECT_EQ(TrainedOf("alexnet", 0), 54575114);
  EXPECT_EQ(TrainedOf("densenet121", 4096), 21020682);
  EXPECT_EQ(TrainedOf("squeezenet1_0", 0), 5130);
  EXPECT_EQ(TrainedOf("resnet18", 0), 5130);
}

TEST(PrepareModel, PrepareModel_FrozenVgg16_PublishedCountsOfEachWidth) {
  const std::shared_ptr<Model> model = PrepareModel(Frozen("vgg16", 0)).value();
  auto& layered = dynamic_cast<LayeredModel&>(*model);
  EXPECT_EQ(Trained(layered), 119586826);
  for (const auto& [hidden, count] :
       std::map<int64_t, int64_t>{{4096, 119586826}, {2048, 55599114}, {1024, 26750986}}) {
    layered.ReplaceClassifier(hidden, 10);
    EXPECT_EQ(Trained(layered), count);
  }
}

// Such a file is of a net for other classes, as the published ones.
TEST(PrepareModel, PrepareModel_WeightsForOtherClasses_FeaturesAloneUnlessAllIsTrained) {
  const testing::TempDir folder;
  ModelOptions options = Frozen("lenet", 0);
  options.classes = 7;
  const Weights published = WeightsOf(*PrepareModel(options).value());
  options.weights = folder.path() + "/net.safetensors";
  ASSERT_EQ(WriteWeights(options.weights, published), absl::OkStatus());
  options.classes = 10;
  const auto frozen = PrepareModel(options);
  ASSERT_TRUE(frozen.ok()) << frozen.status();
  const Weights weights = WeightsOf(**frozen);
  EXPECT_TRUE(weights.at("conv1.weight").equal(published.at("conv1.weight")));
  EXPECT_EQ(weights.at("classifier.4.bias").numel(), 10);
  options.freeze_features = false;
  EXPECT_THAT(std::string(PrepareModel(options).status().message()),
              AllOf(StartsWith(options.weights),
                    HasSubstr("'classifier.4.bias': got Float [7], expected Float [10]")));
}

// All is trained, but the classifier of the file is not the model's.
TEST(PrepareModel, PrepareModel_HiddenWithWeightsOfTheOldClassifier_FeaturesAreTheFiles) {
  const testing::TempDir folder;
  ModelOptions options;
  options.name = "lenet";
  const Weights published = WeightsOf(*PrepareModel(options).value());
  options.weights = folder.path() + "/net.pt";
  ASSERT_EQ(WriteWeights(options.weights, published), absl::OkStatus());
  options.hidden = 16;
  const auto model = PrepareModel(options);
  ASSERT_TRUE(model.ok()) << model.status();
  const Weights weights = WeightsOf(**model);
  EXPECT_TRUE(weights.at("conv1.weight").equal(published.at("conv1.weight")));
  EXPECT_EQ(weights.at("classifier.0.bias").numel(), 16);
  EXPECT_TRUE(weights.at("conv1.weight").requires_grad());
}

// As of a Python program that assigns such a torch.nn.Sequential.
TEST(PrepareModel, PrepareModel_Hidden_LayersOfTheClassifierInOrder) {
  ModelOptions options;
  options.name = "lenet";
  options.hidden = 16;
  const std::shared_ptr<Model> model = PrepareModel(options).value();
  std::vector<std::string> layers;
  for (const auto& module : model->named_modules()) {
    if (!absl::StartsWith(module.key(), "classifier.")) continue;
    layers.push_back(absl::StrCat(module.key(), " ", module.value()->name()));
  }
  EXPECT_THAT(
      layers,
      ElementsAre("classifier.0 torch::nn::LinearImpl", "classifier.1 torch::nn::ReLUImpl",
                  "classifier.2 torch::nn::DropoutImpl", "classifier.3 torch::nn::LinearImpl",
                  "classifier.4 torch::nn::ReLUImpl", "classifier.5 torch::nn::DropoutImpl",
                  "classifier.6 torch::nn::LinearImpl"));
  EXPECT_EQ(model->stages().size(), 5u);  // two convolutions and three layers
  EXPECT_EQ(model->forward(torch::zeros({2, 3, 32, 32})).sizes(), torch::IntArrayRef({2, 10}));
}

// Else the statistics of the features would change, or the classifier would train without dropout.
TEST(PrepareModel, PrepareModel_FrozenFeatures_TheClassifierAloneIsInTrainingMode) {
  const std::shared_ptr<Model> model = PrepareModel(Frozen("squeezenet1_0", 0)).value();
  const auto is_training = [&model](const std::string& name) {
    return model->named_modules()[name]->is_training();
  };
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_FALSE(is_training("features.3"));
    EXPECT_TRUE(is_training("classifier.0"));  // dropout
    model->eval();
    EXPECT_FALSE(is_training("classifier.0"));
    model->train();
  }
}

// A BatchNorm is updated with its convolution.
TEST(PrepareModel, PrepareModel_ModelWithStatistics_HasAStageForEachConvolution) {
  ModelOptions options;
  options.name = "vgg11";
  EXPECT_EQ(PrepareModel(options).value()->stages().size(), 9u);  // and one for the classifier
}

TEST(ShapeFor, ImageSize_ImagesAreScaledToIt) {
  ModelOptions options;
  options.name = "vgg11";
  const std::shared_ptr<Model> model = PrepareModel(options).value();
  const ImageShape own = ShapeFor(*model, 0), other = ShapeFor(*model, 64);
  EXPECT_FALSE(own.scaled);
  EXPECT_EQ(own.width, 32);
  EXPECT_TRUE(other.scaled);
  EXPECT_EQ(other.height, 64);
  EXPECT_EQ(other.width, 64);
}

TEST(PrepareModel, PrepareModel_HiddenForMaps_OneScoreEach) {
  ModelOptions options = Frozen("squeezenet1_0", 16);
  options.classes = 7;
  const std::shared_ptr<Model> model = PrepareModel(options).value();
  EXPECT_EQ(model->forward(torch::zeros({2, 3, 32, 32})).sizes(), torch::IntArrayRef({2, 7}));
}

TEST(PrepareModel, PrepareModel_FrozenFeatures_StayToTheBit) {
  const std::shared_ptr<Model> model = PrepareModel(Frozen("vgg11", 0)).value();
  model->train();
  std::vector<torch::Tensor> before;
  for (const auto& tensor : model->parameters()) before.push_back(tensor.clone());
  for (const auto& tensor : model->buffers()) before.push_back(tensor.clone());
  TrainerOptions options;
  const auto trainer = Trainer::Create(model, options).value();
  EXPECT_EQ(trainer->reducer().BucketSpecs().size(), 1u);
  EXPECT_EQ(trainer->reducer().BucketSpecs()[0].bytes, 5130u * 4);
  Batch batch;
  batch.images = torch::randn({2, 3, 32, 32});
  batch.labels = torch::tensor({1, 2});
  int steps = 0;
  ASSERT_TRUE(trainer
                  ->Run(
                      [&]() -> absl::StatusOr<Batch> {
                        if (steps++ == 0) return batch;
                        return absl::OutOfRangeError("done");
                      },
                      nullptr, [](absl::Span<const StepRecord>) {}, [] { return false; })
                  .ok());
  std::vector<torch::Tensor> after = model->parameters();
  for (const auto& tensor : model->buffers()) after.push_back(tensor);
  const auto changed = [&](size_t i) { return !after[i].equal(before[i]); };
  for (size_t i = 0; i < after.size(); ++i) EXPECT_EQ(changed(i), i == 32 || i == 33) << i;
}

// By their hash, workers whose weights differ in a statistic alone are told apart.
TEST(AllTensors, ModelWithStatistics_ParametersThenBuffers) {
  const std::shared_ptr<Model> model = PrepareModel(Frozen("vgg11", 0)).value();
  const std::vector<torch::Tensor> all = AllTensors(*model);
  ASSERT_EQ(all.size(), model->parameters().size() + 24);
  EXPECT_TRUE(all.front().is_same(model->parameters().front()));
  EXPECT_TRUE(all.back().is_same(model->buffers().back()));
}

// Of its 32 convolutions' and BatchNorms' parameters and 24 statistics.
TEST(FrozenTensors, FrozenExtractor_AllButTheClassifier) {
  EXPECT_EQ(FrozenTensors(*PrepareModel(Frozen("vgg11", 0)).value()).size(), 56u);
}

TEST(FrozenTensors, NothingFrozen_None) {
  ModelOptions options;
  options.name = "vgg11";
  EXPECT_TRUE(FrozenTensors(*PrepareModel(options).value()).empty());
}

TEST(PrepareModel, PrepareModel_ImagesTooSmall_InvalidArgumentNamesModelAndSize) {
  ModelOptions options;
  options.name = "alexnet";
  options.image_size = 16;
  const absl::Status status = PrepareModel(options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("--image-size: got 16, expected a size that model alexnet takes"));
}

// torch throws, as for a tensor that is larger than the memory; nothing is allocated here.
TEST(PrepareModel, PrepareModel_HiddenTooLargeForMemory_ResourceExhausted) {
  ModelOptions options;
  options.name = "mlp";
  options.hidden = int64_t{1} << 62;
  const absl::Status status = PrepareModel(options).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), StartsWith("model mlp: torch: "));
}

TEST(PrepareModel, PrepareModel_ImageSizeForTokens_InvalidArgument) {
  ModelOptions options;
  options.name = "bert_tiny";
  options.image_size = 64;
  EXPECT_THAT(std::string(PrepareModel(options).status().message()),
              HasSubstr("bert_tiny takes token ids"));
}

// The size is tried on one image, which must leave no trace in statistics of BatchNorm.
TEST(PrepareModel, PrepareModel_ImageSizeThatFits_ModelIsAsDrawn) {
  ModelOptions options;
  options.name = "resnet18";
  const std::shared_ptr<Model> drawn = PrepareModel(options).value();
  options.image_size = 64;
  const std::shared_ptr<Model> tried = PrepareModel(options).value();
  EXPECT_TRUE(tried->is_training());
  const std::vector<torch::Tensor> expected = drawn->buffers(), got = tried->buffers();
  ASSERT_EQ(got.size(), expected.size());
  ASSERT_FALSE(got.empty());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(expected[i])) << i;
}

}  // namespace
}  // namespace gradwire
