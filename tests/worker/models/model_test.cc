#include "worker/models/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/oracle.h"
#include "tests/worker/models/describe.h"

namespace gradwire::model_test {
namespace {

constexpr int64_t kSeed = 744;
constexpr int64_t kBatch = 8;
constexpr int64_t kSteps = 3;

std::shared_ptr<Model> SeededVgg11() {
  torch::manual_seed(kSeed);
  return MakeModel("vgg11", 10).value();
}

std::vector<double> Train(Model& model) {
  const torch::Tensor images = torch::randn({kBatch, 3, 32, 32});
  const torch::Tensor labels = torch::randint(0, 10, {kBatch}, torch::kInt64);
  torch::optim::SGD optimizer(model.parameters(),
                              torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-4));
  std::vector<double> losses;
  for (int64_t i = 0; i < kSteps; ++i) {
    optimizer.zero_grad();
    torch::Tensor loss = torch::nn::functional::cross_entropy(model.forward(images), labels);
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

// Asked once for all tests of this suite: Python needs seconds to load torch.
class Vgg11Oracle : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    answer_ = testing::AskOracle(
        "vgg11.py", {std::to_string(kSeed), std::to_string(kBatch), std::to_string(kSteps)});
  }
  void SetUp() override { ASSERT_TRUE(answer_.ok()) << answer_.status(); }

  static absl::StatusOr<nlohmann::json> answer_;
};

absl::StatusOr<nlohmann::json> Vgg11Oracle::answer_ = absl::UnknownError("not asked");

TEST_F(Vgg11Oracle, MakeModel_Seed_EveryTensorBitEqual) {
  const std::vector<nlohmann::json> got = testing::DescribeTensors(*SeededVgg11());
  const nlohmann::json& expected = (*answer_)["tensors"];
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], expected[i]);
}

TEST_F(Vgg11Oracle, Forward_FirstSteps_LossesEqual) {
  const std::shared_ptr<Model> model = SeededVgg11();
  const std::vector<double> got = Train(*model);
  const auto expected = (*answer_)["losses"].get<std::vector<double>>();
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i] / expected[i], 1, 1e-4) << i;
}

TEST(Vgg11, MakeModel_TenClasses_CountsOfTheCourse) {
  const std::shared_ptr<Model> model = SeededVgg11();
  int64_t parameters = 0;
  for (const torch::Tensor& parameter : model->parameters()) parameters += parameter.numel();
  EXPECT_EQ(parameters, 9231114);
  EXPECT_EQ(model->parameters().size(), 34u);
  EXPECT_EQ(model->buffers().size(), 24u);
}

TEST(Vgg11, MakeModel_TenClasses_NamesOfTheCourse) {
  const auto parameters = SeededVgg11()->named_parameters();
  EXPECT_EQ(parameters.front().key(), "layers.0.weight");
  EXPECT_EQ(parameters.back().key(), "fc1.bias");
}

TEST(Vgg11, Forward_OtherClasses_OneScoreEach) {
  const std::shared_ptr<Model> model = MakeModel("vgg11", 7).value();
  EXPECT_EQ(model->forward(torch::zeros({2, 3, 32, 32})).sizes(), torch::IntArrayRef({2, 7}));
}

TEST(MakeModel, MakeModel_UnknownName_NotFoundListsNames) {
  const absl::Status status = MakeModel("vgg12", 10).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()),
              ::testing::StartsWith("model 'vgg12' does not exist; expected one of: vgg11"));
}

}  // namespace
}  // namespace gradwire::model_test
