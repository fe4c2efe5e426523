#include "worker/ddp/gradient_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace gradwire {
namespace {

using ::testing::ElementsAre;

// y = a x b c, one bucket for each parameter: c is 0, b is 1, a is 2.
class GradientHooksTest : public ::testing::Test {
 protected:
  void Begin() {
    PassListener listener;
    listener.on_begin = [this] { ++begun_; };
    listener.on_bucket = [this](size_t bucket) { told_.push_back(bucket); };
    hooks_.Begin(0, std::move(listener));
  }
  void Backward() { (a_ * b_ * c_).sum().backward(); }
  float TermOf(size_t bucket) const { return gradient_.terms(0, bucket)[0].item<float>(); }

  torch::Tensor a_ = torch::full({2}, 2.0f, torch::requires_grad());
  torch::Tensor b_ = torch::full({2}, 3.0f, torch::requires_grad());
  torch::Tensor c_ = torch::full({2}, 4.0f, torch::requires_grad());
  FlatGradient gradient_{{a_, b_, c_}, 0};
  GradientHooks hooks_{&gradient_, /*keep_grad=*/false};
  std::vector<size_t> told_;
  int begun_ = 0;
};

TEST_F(GradientHooksTest, Begin_AllUsed_EveryBucketInOrder) {
  Begin();
  Backward();
  EXPECT_THAT(told_, ElementsAre(0, 1, 2));
}

TEST_F(GradientHooksTest, Begin_LastParameterUsedFirst_ToldInOrderAllTheSame) {
  Begin();
  (c_ * b_ * a_).sum().backward();
  EXPECT_THAT(told_, ElementsAre(0, 1, 2));
}

TEST_F(GradientHooksTest, Begin_Bucket_ToldWithItsTermsFromInsideBackward) {
  std::vector<float> of_front;
  hooks_.Begin(0, {nullptr, [&](size_t bucket) {
                     EXPECT_NE(TermOf(bucket), 0);
                     of_front.push_back(TermOf(2));
                   }});
  Backward();
  EXPECT_EQ(of_front[0], 0) << "bucket 2 was made before bucket 0 was told of";
}

TEST_F(GradientHooksTest, Begin_OnBegin_OnceBeforeTheFirstBucket) {
  hooks_.Begin(0, {[this] { told_.push_back(99); }, [this](size_t b) { told_.push_back(b); }});
  Backward();
  EXPECT_THAT(told_, ElementsAre(99, 0, 1, 2));
}

TEST_F(GradientHooksTest, Begin_ParameterUsedTwice_ToldOnceWithTheSum) {
  Begin();
  (a_ * b_ * c_ + c_).sum().backward();
  EXPECT_THAT(told_, ElementsAre(0, 1, 2));
  EXPECT_EQ(TermOf(0), 7);
}

TEST_F(GradientHooksTest, Begin_UnusedParameter_ItAndThoseBehindAreNotToldOf) {
  Begin();
  (a_ * c_).sum().backward();
  EXPECT_THAT(told_, ElementsAre(0));
}

TEST_F(GradientHooksTest, Begin_Again_EveryBucketAgain) {
  for (int i = 0; i < 2; ++i) {
    Begin();
    Backward();
    ASSERT_TRUE(hooks_.End().ok());
  }
  EXPECT_THAT(told_, ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_EQ(begun_, 2);
}

TEST_F(GradientHooksTest, Begin_OtherRank_ItsTermsAlone) {
  gradient_.Allocate(2, false);
  hooks_.Begin(1, {});
  Backward();
  EXPECT_EQ(gradient_.terms(1, 0)[0].item<float>(), 6);
  EXPECT_EQ(TermOf(0), 0);
}

TEST_F(GradientHooksTest, Cancel_Backward_Silent) {
  Begin();
  hooks_.Cancel();
  Backward();
  EXPECT_THAT(told_, ElementsAre());
  EXPECT_EQ(begun_, 0);
}

TEST_F(GradientHooksTest, End_PassesBefore_TheirSum) {
  Backward();
  Begin();
  Backward();
  ASSERT_TRUE(hooks_.End().ok());
  EXPECT_EQ(TermOf(0), 12);
}

TEST_F(GradientHooksTest, End_ParameterOfAPassBeforeOnly_WhatThatGave) {
  Backward();
  Begin();
  (a_ * b_).sum().backward();
  ASSERT_TRUE(hooks_.End().ok());
  EXPECT_EQ(TermOf(0), 6);
  EXPECT_THAT(hooks_.Unused(), ElementsAre(2));
  EXPECT_THAT(hooks_.WithoutGradient(), ElementsAre());
}

TEST_F(GradientHooksTest, End_UnusedParameter_ZeroAndNamed) {
  Begin();
  Backward();
  ASSERT_TRUE(hooks_.End().ok());
  Begin();
  (a_ * c_).sum().backward();
  ASSERT_TRUE(hooks_.End().ok());
  EXPECT_EQ(TermOf(1), 0);
  EXPECT_EQ(TermOf(2), 4);
  EXPECT_THAT(hooks_.Unused(), ElementsAre(1));
  EXPECT_THAT(hooks_.WithoutGradient(), ElementsAre(1));
}

TEST_F(GradientHooksTest, Unused_SeveralParameters_Ascending) {
  Begin();
  (b_ * 1).sum().backward();
  EXPECT_THAT(hooks_.Unused(), ElementsAre(0, 2));
  ASSERT_TRUE(hooks_.End().ok());
  EXPECT_THAT(hooks_.WithoutGradient(), ElementsAre(0, 2));
}

TEST_F(GradientHooksTest, End_NotKept_GradIsTakenAway) {
  Begin();
  Backward();
  ASSERT_TRUE(hooks_.End().ok());
  EXPECT_FALSE(a_.grad().defined());
}

TEST_F(GradientHooksTest, End_TwoBackwardPasses_FailedPrecondition) {
  Begin();
  Backward();
  Backward();
  const absl::Status status = hooks_.End();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), ::testing::StartsWith("parameter 2: got a second"));
  EXPECT_THAT(told_, ElementsAre(0, 1, 2));
}

// Autograd goes on with the other parameters.
TEST_F(GradientHooksTest, OnError_SecondGradients_ToldOfOnceAndTheNextPassStartsAnew) {
  std::vector<absl::Status> errors;
  PassListener listener;
  listener.on_error = [&errors](const absl::Status& error) { errors.push_back(error); };
  hooks_.Begin(0, std::move(listener));
  Backward();
  Backward();
  const absl::Status status = hooks_.End();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(errors, ElementsAre(status));
  Begin();
  Backward();
  EXPECT_EQ(hooks_.End(), absl::OkStatus());
  EXPECT_THAT(told_, ElementsAre(0, 1, 2));
}

TEST(GradientHooks, End_SparseGradient_InvalidArgumentNamesIt) {
  const torch::Tensor dense = torch::ones({2}, torch::requires_grad());
  const torch::Tensor table = torch::ones({3, 2}, torch::requires_grad());
  FlatGradient gradient({dense, table}, 0);
  GradientHooks hooks(&gradient, false);
  hooks.Begin(0, {});
  const auto sparse = torch::nn::functional::EmbeddingFuncOptions().sparse(true);
  torch::nn::functional::embedding(torch::tensor({1}), table, sparse).sum().backward();
  EXPECT_EQ(hooks.End(), absl::InvalidArgumentError("parameter 1: got a gradient that is sparse, "
                                                    "expected a dense one of float32"));
}

TEST(GradientHooks, End_SparseGradientOfAPassBefore_InvalidArgumentNamesIt) {
  const torch::Tensor dense = torch::ones({2}, torch::requires_grad());
  const torch::Tensor table = torch::ones({3, 2}, torch::requires_grad());
  FlatGradient gradient({dense, table}, 0);
  GradientHooks hooks(&gradient, false);
  const auto sparse = torch::nn::functional::EmbeddingFuncOptions().sparse(true);
  torch::nn::functional::embedding(torch::tensor({1}), table, sparse).sum().backward();
  hooks.Begin(0, {});
  (dense * 2).sum().backward();
  EXPECT_EQ(hooks.End(), absl::InvalidArgumentError("parameter 1: got a gradient that is sparse, "
                                                    "expected a dense one of float32"));
}

TEST(GradientHooks, End_Kept_GradStays) {
  const torch::Tensor parameter = torch::ones({2}, torch::requires_grad());
  FlatGradient gradient({parameter}, 0);
  GradientHooks hooks(&gradient, /*keep_grad=*/true);
  hooks.Begin(0, {});
  (parameter * 3).sum().backward();
  ASSERT_TRUE(hooks.End().ok());
  EXPECT_EQ(parameter.grad()[0].item<float>(), 3);
  EXPECT_EQ(gradient.terms(0, 0)[0].item<float>(), 3);
}

TEST(GradientHooks, Destructor_GraphOutlivesIt_BackwardRuns) {
  const torch::Tensor parameter = torch::ones({2}, torch::requires_grad());
  torch::Tensor loss;
  {
    FlatGradient gradient({parameter}, 0);
    GradientHooks hooks(&gradient, false);
    hooks.Begin(0, {nullptr, [](size_t) { FAIL() << "told after its end"; }});
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
  EXPECT_EQ(gradient.index_of(0), 1u);
}

TEST(FlatGradient, Mean_OneParameter_ItsPartInItsShape) {
  const torch::Tensor front = torch::ones({2, 3}, torch::requires_grad());
  const torch::Tensor back = torch::ones({4}, torch::requires_grad());
  FlatGradient gradient({front, back}, 1000);
  gradient.Allocate(1, true);
  gradient.mean(0).copy_(torch::arange(10));
  EXPECT_TRUE(gradient.mean(0, 1).equal(torch::arange(4, 10).view({2, 3}).to(torch::kFloat)));
}

constexpr int64_t kQuarterMebibyte = 1 << 18;

// As DistributedDataParallel does, so that the first bucket leaves early.
TEST(FlatGradient, Specs_FirstBucket_IsCompleteWithAMebibyte) {
  std::vector<torch::Tensor> parameters;
  for (int i = 0; i < 12; ++i) {
    parameters.push_back(torch::ones({kQuarterMebibyte / 4}, torch::requires_grad()));
  }
  EXPECT_THAT(FlatGradient(parameters, 6 * kQuarterMebibyte).Specs(),
              ElementsAre(BucketSpec{4 * kQuarterMebibyte, v1::DTYPE_FLOAT32},
                          BucketSpec{6 * kQuarterMebibyte, v1::DTYPE_FLOAT32},
                          BucketSpec{2 * kQuarterMebibyte, v1::DTYPE_FLOAT32}));
  EXPECT_EQ(FlatGradient(parameters, 2 * kQuarterMebibyte).bucket_count(), 6u);
}

}  // namespace
}  // namespace gradwire
