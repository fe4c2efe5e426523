#include "worker/ddp/model_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/worker/run/training.h"

namespace gradwire::model_layout_test {
namespace {

using ::testing::Contains;

// A checkpoint and messages name tensors by it.
TEST(LayoutOf, ModelWithBuffers_ParametersThenBuffersWithShapeAndType) {
  const testing::StagedModel model;
  const Layout layout = LayoutOf(model);
  ASSERT_EQ(layout.size(), model.parameters().size() + model.buffers().size());
  EXPECT_TRUE(std::is_sorted(
      layout.begin(), layout.end(),
      [](const TensorSpec& a, const TensorSpec& b) { return !a.buffer && b.buffer; }));
  EXPECT_THAT(layout, Contains(TensorSpec{"conv.weight", {4, 3, 3, 3}, "float32", false}));
  EXPECT_THAT(layout, Contains(TensorSpec{"frozen", {5}, "float32", false}));
  EXPECT_THAT(layout, Contains(TensorSpec{"norm.running_mean", {4}, "float32", true}));
  EXPECT_THAT(layout, Contains(TensorSpec{"norm.num_batches_tracked", {}, "int64", true}));
}

TEST(Sha256, SeveralTensors_IsOfTheirBytesInOrder) {
  const torch::Tensor one = torch::ones({2}), two = torch::full({3}, 2.0f);
  EXPECT_EQ(Sha256({one, two}), Sha256({torch::cat({one, two})}));
  EXPECT_NE(Sha256({one, two}), Sha256({two, one}));
  EXPECT_EQ(Sha256({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(FloatsInBase64, OtherTypesBetweenThem_OnlyFloatsInOrder) {
  EXPECT_EQ(
      FloatsInBase64({torch::ones({1}), torch::zeros({2}, torch::kLong), torch::full({1}, 2.0f)}),
      "AACAPwAAAEA=");
}

}  // namespace
}  // namespace gradwire::model_layout_test
