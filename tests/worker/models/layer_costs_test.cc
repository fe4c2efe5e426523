#include "worker/models/layer_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "worker/models/layered_model.h"

namespace gradwire {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

std::vector<std::string> NamesOf(const std::vector<LayerCost>& layers) {
  std::vector<std::string> names;
  for (const LayerCost& layer : layers) names.push_back(layer.name);
  return names;
}

std::vector<int64_t> CostsOf(const std::vector<LayerCost>& layers) {
  std::vector<int64_t> costs;
  for (const LayerCost& layer : layers) costs.push_back(layer.multiply_adds);
  return costs;
}

// Of layers that are easily counted.
class Small : public LayeredModel {
 public:
  Small() : LayeredModel(ImageShape()) {
    Append("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 5).stride(3)));
    Append("norm", torch::nn::BatchNorm2d(8));
    Append("flatten", torch::nn::Flatten());
    BeginClassifier("fc", 8 * 10 * 10);
    Append("fc", torch::nn::Linear(8 * 10 * 10, 7));
  }
};

class Grouped : public LayeredModel {
 public:
  Grouped() : LayeredModel(ImageShape()) {
    Append("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 8, 1).groups(2)));
  }
};

TEST(CountMultiplyAdds, ConvolutionAndLinear_AreCountedAsByHand) {
  const auto model = std::make_shared<Small>();
  const auto layers = CountMultiplyAdds(model.get(), torch::zeros({2, 3, 32, 32}));
  EXPECT_THAT(NamesOf(layers), ElementsAre("conv", "norm", "fc"));
  // 2 samples of 8 maps of 10 x 10, each value from 3 maps' 5 x 5; 2 samples of 7 from 800.
  EXPECT_THAT(CostsOf(layers), ElementsAre(2 * 8 * 100 * 3 * 25, 0, 2 * 7 * 800));
  EXPECT_EQ(layers[0].parameters.size(), 2u);
}

TEST(CountMultiplyAdds, Model_IsLeftAsItWas) {
  const auto model = std::make_shared<Small>();
  model->train();
  const torch::Tensor before = model->buffers().front().clone();
  CountMultiplyAdds(model.get(), torch::ones({1, 3, 32, 32}));
  EXPECT_TRUE(model->is_training());
  EXPECT_TRUE(model->buffers().front().equal(before));
  EXPECT_TRUE(model->forward(torch::ones({2, 3, 32, 32})).requires_grad());
}

TEST(CountMultiplyAdds, GroupedConvolution_CountsItsGroupAlone) {
  const auto model = std::make_shared<Grouped>();
  const auto layers = CountMultiplyAdds(model.get(), torch::zeros({1, 4, 3, 3}));
  EXPECT_THAT(CostsOf(layers), ElementsAre(8 * 9 * 2));
}

TEST(CountMultiplyAdds, Vgg11_HasItsEightConvolutionsAndTheClassifier) {
  auto model = MakeModel("vgg11", 10).value();
  const auto layers = CountMultiplyAdds(model.get(), torch::zeros({1, 3, 32, 32}));
  ASSERT_EQ(layers.size(), 17u);
  EXPECT_EQ(layers[0].multiply_adds, 64 * 1024 * 27);
  EXPECT_EQ(layers[2].multiply_adds, 128 * 256 * 64 * 9);
  EXPECT_EQ(layers[16].multiply_adds, 5120);
  int64_t all = 0;
  for (const LayerCost& layer : layers) all += layer.multiply_adds;
  EXPECT_EQ(all,
            1769472 + 18874368 + 18874368 + 37748736 + 18874368 + 37748736 + 2 * 9437184 + 5120);
}

TEST(CountMultiplyAdds, Attention_CountsProductsThatHaveNoParameters) {
  auto model = MakeModel("bert_tiny", 2).value();
  const ImageShape shape = model->image_shape();
  const auto layers = CountMultiplyAdds(model.get(), torch::zeros({1, 1, 1, shape.width}));
  int64_t all = 0;
  for (const LayerCost& layer : layers) all += layer.multiply_adds;
  // Of each of 2 layers: 12 weights of 128 x 128 for each of 128 tokens, and scores and their sums.
  const int64_t layer = 128 * 12 * 128 * 128 + 2 * 128 * 128 * 128;
  EXPECT_EQ(all, 2 * layer + 128 * 128 + 128 * 2);
}

TEST(ShareOut, MultiplyAdds_AreTheWeights) {
  std::vector<LayerCost> layers(3);
  layers[0].multiply_adds = 1;
  layers[2].multiply_adds = 3;
  EXPECT_THAT(ShareOut(8, layers), ElementsAre(DoubleEq(2), DoubleEq(0), DoubleEq(6)));
}

TEST(ShareOut, NoMultiplyAdds_EqualParts) {
  EXPECT_THAT(ShareOut(8, std::vector<LayerCost>(2)), ElementsAre(DoubleEq(4), DoubleEq(4)));
}

}  // namespace
}  // namespace gradwire
