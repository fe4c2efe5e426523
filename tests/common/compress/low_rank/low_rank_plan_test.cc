#include "common/compress/low_rank/low_rank_plan.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(LowRankLayout, Tensors_MatricesThatPayAreProducts) {
  const LowRankLayout layout({{10}, {20, 3, 5, 5}, {3, 4}, {}, {30, 40}}, 2);
  ASSERT_EQ(layout.matrices.size(), 2);
  EXPECT_EQ(layout.matrices[0].rows, 20);
  EXPECT_EQ(layout.matrices[0].columns, 75);
  EXPECT_EQ(layout.matrices[0].first, 10);
  EXPECT_EQ(layout.matrices[1].first, 10 + 1500 + 12 + 1);
  EXPECT_EQ(layout.matrices[1].residual, 1500);
  EXPECT_EQ(layout.plain.size(), 3);
  EXPECT_EQ(layout.size, 10 + 1500 + 12 + 1 + 1200);
  EXPECT_EQ(layout.left_size, 10 + 2 * 20 + 12 + 1 + 2 * 30);
  EXPECT_EQ(layout.right_size, 2 * 75 + 2 * 40);
  EXPECT_EQ(layout.residual_size, 1500 + 1200);
}

// PyTorch's bound is twice what travels, not more.
TEST(LowRankLayout, HalfOfTheMatrix_TravelsAsItIs) {
  EXPECT_EQ(LowRankLayout({{8, 8}}, 2).matrices.size(), 0);  // 2 · 16 · 2 = 64
  EXPECT_EQ(LowRankLayout({{8, 9}}, 2).matrices.size(), 1);  // 68 < 72
  EXPECT_EQ(LowRankLayout({{8, 9}}, 3).matrices.size(), 0);
}

TEST(LowRankLayout, RankAboveTheMatrix_IsItsSmallerSide) {
  EXPECT_EQ(LowRankLayout({{1, 100}}, 5).matrices.size(), 0);
  EXPECT_EQ(LowRankLayout({{2, 3}, {0, 5}, {5, 0}}, 1000).size, 6);
}

TEST(LowRankPlan, Buckets_HaveOneOrTwoPlacesAndOthersFollow) {
  const LowRankPlan plan({{{30, 40}}, {{7}}, {{20, 75}, {20}}}, {{333, v1::DTYPE_BYTES}}, 1);
  const std::vector<BucketSpec> expected = {
      {4 * 30, v1::DTYPE_FLOAT32}, {4 * 40, v1::DTYPE_FLOAT32}, {4 * 7, v1::DTYPE_FLOAT32},
      {4 * 40, v1::DTYPE_FLOAT32}, {4 * 75, v1::DTYPE_FLOAT32}, {333, v1::DTYPE_BYTES}};
  EXPECT_EQ(plan.specs(), expected);
  EXPECT_EQ(plan.place(0), Bucket(0));
  EXPECT_EQ(plan.place(1), Bucket(2));
  EXPECT_EQ(plan.place(2), Bucket(3));
  EXPECT_EQ(plan.place(3), Bucket(5));
  EXPECT_EQ(plan.gradient_bytes(), 4 * (1200 + 7 + 1520));
  EXPECT_EQ(plan.factor_bytes(), 4 * (70 + 7 + 115));
  EXPECT_EQ(plan.residual_bytes(), 4 * (1200 + 1500));
}

}  // namespace
}  // namespace gradwire
