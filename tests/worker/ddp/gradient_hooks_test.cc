#include "worker/ddp/gradient_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradwire {
namespace {

using ::testing::ElementsAre;

// y = a x b c, one bucket for each parameter: c is 0, b is 1, a is 2.
class GradientHooksTest : public ::testing::Test {
 protected:
  void Arm() {
    hooks_.Arm([this](size_t bucket) { told_.push_back(bucket); });
  }

  torch::Tensor a_ = torch::full({2}, 2.0f, torch::requires_grad());
  torch::Tensor b_ = torch::full({2}, 3.0f, torch::requires_grad());
  torch::Tensor c_ = torch::full({2}, 4.0f, torch::requires_grad());
  FlatGradient gradient_{{a_, b_, c_}, 0};
  GradientHooks hooks_{&gradient_};
  std::vector<size_t> told_;
};

TEST_F(GradientHooksTest, Arm_AllUsed_EveryBucketInOrder) {
  Arm();
  (a_ * b_ * c_).sum().backward();
  EXPECT_THAT(told_, ElementsAre(0, 1, 2));
}

TEST_F(GradientHooksTest, Arm_LastParameterUsedFirst_ToldInOrderAllTheSame) {
  Arm();
  (c_ * b_ * a_).sum().backward();
  EXPECT_THAT(told_, ElementsAre(0, 1, 2));
}

TEST_F(GradientHooksTest, Arm_Bucket_ToldWithItsGradientFromInsideBackward) {
  std::vector<float> of_front;
  hooks_.Arm([&](size_t bucket) {
    EXPECT_NE(gradient_.local(bucket)[0], 0);
    of_front.push_back(gradient_.local(2)[0]);
  });
  (a_ * b_ * c_).sum().backward();
  EXPECT_EQ(of_front[0], 0) << "bucket 2 was made before bucket 0 was told of";
}

TEST_F(GradientHooksTest, Arm_ParameterUsedTwice_ToldOnceWithTheSum) {
  Arm();
  (a_ * b_ * c_ + c_).sum().backward();
  EXPECT_THAT(told_, ElementsAre(0, 1, 2));
  EXPECT_EQ(gradient_.local(0)[0], 7);
}

TEST_F(GradientHooksTest, Arm_UnusedParameter_ItAndThoseBehindAreNotToldOf) {
  Arm();
  (a_ * c_).sum().backward();
  EXPECT_THAT(told_, ElementsAre(0));
}

TEST_F(GradientHooksTest, Arm_Again_EveryBucketAgain) {
  for (int i = 0; i < 2; ++i) {
    Arm();
    (a_ * b_ * c_).sum().backward();
  }
  EXPECT_THAT(told_, ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST_F(GradientHooksTest, Disarm_Backward_Silent) {
  Arm();
  hooks_.Disarm();
  (a_ * b_ * c_).sum().backward();
  EXPECT_THAT(told_, ElementsAre());
}

TEST(GradientHooks, Destructor_GraphOutlivesIt_BackwardRuns) {
  const torch::Tensor parameter = torch::ones({2}, torch::requires_grad());
  torch::Tensor loss;
  {
    FlatGradient gradient({parameter}, 0);
    GradientHooks hooks(&gradient);
    hooks.Arm([](size_t) { FAIL() << "told after its end"; });
    loss = (parameter * 2).sum();
  }
  loss.backward();
}

TEST(FlatGradient, BucketOf_FrozenOrEmptyParameter_None) {
  const torch::Tensor frozen = torch::ones({2});
  const torch::Tensor empty = torch::ones({0}, torch::requires_grad());
  const torch::Tensor used = torch::ones({3}, torch::requires_grad());
  const FlatGradient gradient({frozen, used, empty}, 0);
  EXPECT_EQ(gradient.bucket_count(), 1u);
  EXPECT_EQ(gradient.BucketOf(frozen), absl::nullopt);
  EXPECT_EQ(gradient.BucketOf(empty), absl::nullopt);
  EXPECT_EQ(gradient.BucketOf(used), 0u);
}

class FlatGradientTest : public ::testing::Test {
 protected:
  void Backward() { (a_ * b_).sum().backward(); }

  torch::Tensor a_ = torch::ones({2}, torch::requires_grad());
  torch::Tensor b_ = torch::full({2}, 3.0f, torch::requires_grad());
  FlatGradient gradient_{{a_, b_}, 0};
  GradientHooks hooks_{&gradient_};
};

TEST_F(FlatGradientTest, Take_TwoBackwardPasses_TheirSum) {
  Backward();
  Backward();
  EXPECT_THAT(gradient_.local(0), ElementsAre(2, 2));
  EXPECT_THAT(gradient_.local(1), ElementsAre(6, 6));
}

TEST_F(FlatGradientTest, Start_OneBucket_OthersAddUp) {
  Backward();
  gradient_.Start(0);
  EXPECT_FALSE(b_.grad().defined());
  Backward();
  EXPECT_THAT(gradient_.local(0), ElementsAre(1, 1));
  EXPECT_THAT(gradient_.local(1), ElementsAre(6, 6));
}

TEST_F(FlatGradientTest, FillMissing_ParameterOfAnEarlierStepOnly_Zero) {
  Backward();
  for (size_t bucket : {0, 1}) gradient_.Start(bucket);
  a_.sum().backward();
  gradient_.FillMissing();
  EXPECT_THAT(gradient_.local(0), ElementsAre(0, 0));
  EXPECT_THAT(gradient_.local(1), ElementsAre(1, 1));
}

}  // namespace
}  // namespace gradwire
