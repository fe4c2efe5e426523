#include "worker/learning/losses.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(Losses, MeanSquaredError_TwoSamples_AgainstOneHot) {
  const torch::Tensor scores = torch::tensor({{1.0f, 0.0f, 0.0f, 2.0f}, {0.0f, 0.0f, 0.0f, 1.0f}});
  const torch::Tensor labels = torch::tensor({0, 1});
  // Squares 4 of the first sample and 1 + 1 of the second, over 4 classes.
  EXPECT_FLOAT_EQ(MeanSquaredError(scores, labels, false).item<float>(), 0.75f);
}

TEST(Losses, FindLoss_EachName_SumIsMeanTimesSamples) {
  torch::manual_seed(1);
  const torch::Tensor scores = torch::randn({7, 5});
  const torch::Tensor labels = torch::randint(0, 5, {7}, torch::kInt64);
  for (const char* name : {"cross-entropy", "mse"}) {
    const Loss loss = FindLoss(name).value();
    EXPECT_NEAR(loss(scores, labels, true).item<double>(),
                7 * loss(scores, labels, false).item<double>(), 1e-5)
        << name;
  }
}

TEST(Losses, FindLoss_UnknownName_ListsThoseThatExist) {
  EXPECT_EQ(FindLoss("hinge").status(),
            absl::NotFoundError("loss 'hinge' does not exist; expected one of: cross-entropy mse"));
}

}  // namespace
}  // namespace gradwire
