// What holds for every row of models.inc, and, of those that torchvision has too, for both.
#include <gtest/gtest.h>

#include "tests/support/oracle.h"
#include "tests/worker/models/describe.h"
#include "worker/models/model.h"
#include "worker/options/choices.h"

namespace gradwire {
namespace {

constexpr int64_t kSeed = 744;
constexpr int64_t kSide = 64;  // of images; small, to be quick

std::shared_ptr<Model> Seeded(const std::string& name) {
  torch::manual_seed(kSeed);
  return MakeModel(name, 10).value();
}

torch::Tensor InputsOf(const Model& model) {
  const ImageShape shape = model.image_shape();
  if (shape.vocabulary > 0) {
    return torch::randint(0, shape.vocabulary, {2, 1, 1, shape.width}).to(torch::kFloat);
  }
  const int64_t side = shape.scaled ? kSide : shape.width;
  return torch::randn({2, shape.channels, side, side});
}

std::string NameOf(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

class EveryModel : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryModel, Forward_SevenClasses_OneScoreEach) {
  const std::shared_ptr<Model> model = MakeModel(GetParam(), 7).value();
  EXPECT_EQ(model->forward(InputsOf(*model)).sizes(), torch::IntArrayRef({2, 7}));
}

// One test, because making the largest of them takes seconds.
TEST_P(EveryModel, Stages_OneAfterTheOther_BitsOfForwardAndAllParametersInTheirOrder) {
  const std::shared_ptr<Model> model = Seeded(GetParam());
  model->eval();
  torch::Tensor inputs = InputsOf(*model);
  const torch::Tensor expected = model->forward(inputs);
  for (const Stage& stage : model->stages()) inputs = stage.forward(inputs);
  EXPECT_TRUE(inputs.equal(expected));
  std::vector<torch::Tensor> staged;
  for (const Stage& stage : model->stages()) {
    staged.insert(staged.end(), stage.parameters.begin(), stage.parameters.end());
  }
  const std::vector<torch::Tensor> all = model->parameters();
  ASSERT_EQ(staged.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(staged[i].is_same(all[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModel, ::testing::ValuesIn(NamesOf(ModelChoices())), NameOf);

class OracleModel : public ::testing::TestWithParam<std::string> {};

TEST_P(OracleModel, MakeModel_Seed_TensorsAndScoresOfTheOracle) {
  const absl::StatusOr<nlohmann::json> answer =
      testing::AskOracle("models.py", {GetParam(), std::to_string(kSeed), std::to_string(kSide)});
  ASSERT_TRUE(answer.ok()) << answer.status();
  const std::shared_ptr<Model> model = Seeded(GetParam());
  EXPECT_EQ(nlohmann::json(testing::DescribeTensors(*model)), (*answer)["tensors"]);
  const torch::Tensor inputs = InputsOf(*model);
  const torch::NoGradGuard values_only;
  model->train();
  model->forward(inputs);
  model->eval();
  const torch::Tensor scores = model->forward(inputs).flatten();
  const torch::Tensor expected = torch::tensor((*answer)["scores"].get<std::vector<float>>());
  const double largest = expected.abs().max().item<double>();
  EXPECT_GT(largest, 0);
  EXPECT_LT((scores - expected).abs().max().item<double>() / largest, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Models, OracleModel,
                         ::testing::Values("alexnet", "squeezenet1_0", "vgg16", "resnet18",
                                           "resnet50", "densenet121", "bert_tiny"),
                         NameOf);

int64_t CountParameters(const std::string& name) {
  int64_t count = 0;
  const std::shared_ptr<Model> model = MakeModel(name, 10).value();
  for (const torch::Tensor& parameter : model->parameters()) count += parameter.numel();
  return count;
}

// Those that no oracle has.
TEST(MakeModel, MakeModel_TenClasses_PublishedCounts) {
  EXPECT_EQ(CountParameters("lenet"), 62006);
  EXPECT_EQ(CountParameters("mlp"), 394634);
  EXPECT_EQ(CountParameters("bert_small"), 28763648 + 5130);
  EXPECT_EQ(CountParameters("bert_base"), 109482240 + 7690);
}

}  // namespace
}  // namespace gradwire
