#include "worker/models/emulated_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include "common/base/clock.h"
#include "worker/models/layered_model.h"
#include "worker/models/prepare.h"

namespace gradwire {
namespace {

constexpr int64_t kClasses = 10;
constexpr ComputeSeconds kNone = {0, 0};

std::shared_ptr<Model> Emulate(std::shared_ptr<Model> model, const ComputeSeconds& seconds,
                               int64_t batch_size = 4) {
  const ImageShape shape = model->image_shape();
  return std::make_shared<EmulatedModel>(std::move(model), shape, kClasses, seconds, batch_size);
}

torch::Tensor LossOf(Model& model, int64_t samples) {
  const ImageShape shape = model.image_shape();
  const torch::Tensor images = torch::zeros({samples, shape.channels, shape.height, shape.width});
  return torch::cross_entropy_loss(model.forward(images), torch::zeros({samples}, torch::kLong));
}

double SecondsOf(const std::function<void()>& work) {
  const absl::Time begin = SteadyNow();
  work();
  return absl::ToDoubleSeconds(SteadyNow() - begin);
}

TEST(EmulatedModel, Tensors_KeepNamesAndOrder) {
  const auto real = MakeModel("vgg11", kClasses).value();
  const auto emulated = Emulate(real, kNone);
  EXPECT_EQ(emulated->named_parameters().keys(), real->named_parameters().keys());
  EXPECT_EQ(emulated->named_buffers().keys(), real->named_buffers().keys());
  EXPECT_TRUE(emulated->parameters()[3].is_same(real->parameters()[3]));
}

// Of the two together, for what one sleep is too long the next is shorter.
TEST(EmulatedModel, Passes_TakeTheirSeconds) {
  const auto train = [](Model& model) { LossOf(model, 4).backward(); };
  for (const ComputeSeconds& seconds : {ComputeSeconds{0.1, 0}, {0, 0.1}, {0.05, 0.05}}) {
    const auto model = Emulate(MakeModel("mlp", kClasses).value(), seconds);
    EXPECT_GE(SecondsOf([&] { train(*model); }), 0.1) << ToString(seconds);
  }
}

// Far fewer than would take 40 s.
TEST(EmulatedModel, FewerSamples_TakeTheirPart) {
  const auto model = Emulate(MakeModel("mlp", kClasses).value(), {40, 0}, /*batch_size=*/400);
  const double seconds = SecondsOf([&] { LossOf(*model, 1); });
  EXPECT_GE(seconds, 0.1);
  EXPECT_LT(seconds, 20);
}

TEST(EmulatedModel, Backward_GivesEveryParameterAGradientThatIsNoConstant) {
  for (const char* name : {"vgg11", "resnet18", "bert_tiny"}) {
    const auto model = Emulate(MakeModel(name, kClasses).value(), kNone);
    LossOf(*model, 2).backward();
    for (const auto& parameter : model->named_parameters()) {
      const torch::Tensor gradient = parameter.value().grad();
      ASSERT_TRUE(gradient.defined()) << name << " " << parameter.key();
      EXPECT_EQ(gradient.sizes(), parameter.value().sizes()) << parameter.key();
      const double most = gradient.max().item<double>();
      if (gradient.numel() > 1) {
        EXPECT_GT(most, gradient.min().item<double>()) << parameter.key();
      }
      EXPECT_LT(most, 1e-3) << parameter.key();
    }
  }
}

TEST(EmulatedModel, Gradients_ShareTheMemoryOfTheLargest) {
  const auto model = Emulate(MakeModel("mlp", kClasses).value(), kNone);
  LossOf(*model, 2).backward();
  std::set<const void*> places;
  for (const torch::Tensor& parameter : model->parameters()) {
    places.insert(parameter.grad().data_ptr());
  }
  EXPECT_EQ(places.size(), 1);
}

TEST(EmulatedModel, SecondPass_AddsToTheFirstAndChangesNoLaterOne) {
  const auto model = Emulate(MakeModel("mlp", kClasses).value(), kNone);
  const torch::Tensor parameter = model->parameters().front();
  LossOf(*model, 2).backward();
  const torch::Tensor first = parameter.grad().clone();
  LossOf(*model, 2).backward();
  EXPECT_TRUE(parameter.grad().equal(2 * first));
  parameter.mutable_grad().reset();
  LossOf(*model, 2).backward();
  EXPECT_TRUE(parameter.grad().equal(first));
}

// Each layer's gradients come before the sleep of the layer in front of it.
TEST(EmulatedModel, Backward_LayersAreReadyFromTheLastOn) {
  const auto model = Emulate(MakeModel("lenet", kClasses).value(), {0, 0.1});
  std::vector<std::string> order;
  std::vector<double> at;
  const absl::Time begin = SteadyNow();
  for (const auto& parameter : model->named_parameters()) {
    parameter.value().register_hook([&, name = parameter.key()](const torch::Tensor& gradient) {
      order.push_back(name.substr(0, name.rfind('.')));
      at.push_back(absl::ToDoubleSeconds(SteadyNow() - begin));
      return gradient;
    });
  }
  LossOf(*model, 4).backward();
  order.erase(std::unique(order.begin(), order.end()), order.end());
  EXPECT_THAT(order, ::testing::ElementsAre("classifier.4", "classifier.2", "classifier.0", "conv2",
                                            "conv1"));
  EXPECT_LT(at.front(), at.back());
  EXPECT_GE(at.back(), 0.1);
}

TEST(EmulatedModel, Stages_AreTheModelsAndGiveItsScores) {
  const auto real = MakeModel("vgg11", kClasses).value();
  const auto model = Emulate(real, kNone);
  std::vector<Stage> stages = model->stages();
  ASSERT_EQ(stages.size(), real->stages().size());
  torch::Tensor scores = torch::zeros({3, 3, 32, 32});
  // The first stage has the sleeps of its own layers alone.
  stages.front().forward(scores).sum().backward();
  EXPECT_TRUE(model->parameters().front().grad().defined());
  EXPECT_FALSE(model->parameters().back().grad().defined());
  for (const Stage& stage : stages) scores = stage.forward(scores);
  EXPECT_EQ(scores.sizes(), torch::IntArrayRef({3, kClasses}));
  scores.sum().backward();
  for (const torch::Tensor& parameter : model->parameters()) {
    EXPECT_TRUE(parameter.grad().defined());
  }
}

TEST(EmulatedModel, FrozenFeatures_TheClassifierHasAllOfBackward) {
  const auto real = PrepareModel({"vgg11", kClasses, 0, 0, /*freeze_features=*/true, ""}).value();
  const auto model = Emulate(real, {0, 0.1});
  EXPECT_GE(SecondsOf([&] { LossOf(*model, 4).backward(); }), 0.1);
  EXPECT_FALSE(model->parameters().front().grad().defined());
  EXPECT_TRUE(model->parameters().back().grad().defined());
}

}  // namespace
}  // namespace gradwire
