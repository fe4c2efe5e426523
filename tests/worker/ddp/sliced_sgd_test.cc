#include "worker/ddp/sliced_sgd.h"

#include <gtest/gtest.h>

#include "worker/ddp/hash.h"

namespace gradwire {
namespace {

// One parameter is larger than a slice and no multiple of it, one is small.
TEST(SlicedSgdTest, Step_SeveralSteps_BitsOfSgd) {
  torch::manual_seed(1);
  const auto options = torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-4);
  const int64_t large = 70001 * at::get_num_threads();
  const std::vector<torch::Tensor> expected = {torch::randn({large}), torch::randn({3, 5})};
  const std::vector<torch::Tensor> got = {expected[0].clone(), expected[1].clone()};
  torch::optim::SGD sgd(expected, options);
  SlicedSgd sliced(got, options);
  for (int step = 0; step < 3; ++step) {
    const torch::Tensor gradient = torch::randn({large + 15});
    expected[0].mutable_grad() = gradient.narrow(0, 0, large);
    expected[1].mutable_grad() = gradient.narrow(0, large, 15).view({3, 5});
    sgd.step();
    sliced.Step(gradient);
  }
  EXPECT_EQ(Sha256(got), Sha256(expected));
}

constexpr int64_t kLarge = 70001;

class SlicedSgdStateTest : public ::testing::Test {
 protected:
  static SlicedSgd Make(const torch::Tensor& parameter, double momentum = 0.9) {
    return SlicedSgd({parameter}, torch::optim::SGDOptions(0.1).momentum(momentum));
  }
  torch::Tensor first_ = torch::ones({kLarge});
  SlicedSgd sgd_ = Make(first_);
};

TEST_F(SlicedSgdStateTest, SetState_OfAnother_GoesOnWithItsBits) {
  torch::manual_seed(1);
  sgd_.Step(torch::randn({kLarge}));
  torch::Tensor second = first_.clone();
  SlicedSgd other = Make(second);
  ASSERT_TRUE(other.SetState(sgd_.State()).ok());
  const torch::Tensor gradient = torch::randn({kLarge});
  sgd_.Step(gradient);
  other.Step(gradient);
  EXPECT_EQ(Sha256({second}), Sha256({first_}));
}

TEST_F(SlicedSgdStateTest, State_AfterMoreSteps_WasACopy) {
  sgd_.Step(torch::ones({kLarge}));
  const std::vector<torch::Tensor> state = sgd_.State();
  sgd_.Step(torch::ones({kLarge}));
  EXPECT_TRUE(state[0].equal(torch::ones({kLarge})));
}

TEST_F(SlicedSgdStateTest, State_NoStepOrNoMomentum_Empty) {
  EXPECT_TRUE(sgd_.State().empty());
  SlicedSgd without = Make(first_, 0);
  without.Step(torch::ones({kLarge}));
  EXPECT_TRUE(without.State().empty());
}

TEST_F(SlicedSgdStateTest, SetState_Empty_StartsAnew) {
  sgd_.Step(torch::ones({kLarge}));
  ASSERT_TRUE(sgd_.SetState({}).ok());
  first_.fill_(1);
  sgd_.Step(torch::ones({kLarge}));
  EXPECT_FLOAT_EQ(first_[0].item<float>(), 0.9f);
}

TEST_F(SlicedSgdStateTest, SetState_OtherSize_InvalidArgument) {
  EXPECT_EQ(sgd_.SetState({torch::ones({3})}),
            absl::InvalidArgumentError("state of SGD: got 1 tensors, the first of 3 Float, "
                                       "expected one of 70001 Float"));
}

}  // namespace
}  // namespace gradwire
