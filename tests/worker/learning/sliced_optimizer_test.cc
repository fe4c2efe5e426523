#include "worker/learning/sliced_optimizer.h"

#include <gtest/gtest.h>

#include <functional>
#include <ostream>

#include "worker/ddp/model_layout.h"

namespace gradwire {
namespace {

using TorchOptimizer = std::unique_ptr<torch::optim::Optimizer>;

// An optimiser of ours, and torch's.
struct Case {
  const char* name;
  OptimizerOptions options;
  std::function<TorchOptimizer(const std::vector<torch::Tensor>&)> make;

  friend std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }
};

TorchOptimizer MakeSgd(const std::vector<torch::Tensor>& tensors, double momentum, double decay,
                       bool nesterov) {
  return std::make_unique<torch::optim::SGD>(
      tensors,
      torch::optim::SGDOptions(1).momentum(momentum).weight_decay(decay).nesterov(nesterov));
}

template <typename Optimizer, typename Options>
Case Adaptive(const char* name, const char* row, double decay) {
  return {name, {row, 0, decay, false}, [decay](const std::vector<torch::Tensor>& tensors) {
            return std::make_unique<Optimizer>(tensors, Options().weight_decay(decay));
          }};
}

std::vector<Case> Cases() {
  return {
      {"PlainSgd",
       {"sgd", 0, 0, false},
       [](const auto& tensors) { return MakeSgd(tensors, 0, 0, false); }},
      {"SgdWithMomentum",
       {"sgd", 0.9, 1e-4, false},
       [](const auto& tensors) { return MakeSgd(tensors, 0.9, 1e-4, false); }},
      {"SgdOfNesterov",
       {"sgd", 0.9, 1e-4, true},
       [](const auto& tensors) { return MakeSgd(tensors, 0.9, 1e-4, true); }},
      Adaptive<torch::optim::Adam, torch::optim::AdamOptions>("Adam", "adam", 0),
      Adaptive<torch::optim::Adam, torch::optim::AdamOptions>("AdamWithDecay", "adam", 1e-2),
      Adaptive<torch::optim::AdamW, torch::optim::AdamWOptions>("AdamW", "adamw", 1e-2),
  };
}

// Of one step of a schedule.
double RateOf(int step) { return 0.1 / (1 + step); }

SlicedOptimizer Make(const std::vector<torch::Tensor>& parameters,
                     const OptimizerOptions& options) {
  return SlicedOptimizer(parameters, FindOptimizer(options).value());
}

class SlicedOptimizerTest : public ::testing::TestWithParam<Case> {};

// One parameter is larger than a slice and no multiple of it, one is small.
TEST_P(SlicedOptimizerTest, Step_SeveralSteps_BitsOfTorch) {
  torch::manual_seed(1);
  const int64_t large = 70001 * at::get_num_threads();
  const std::vector<torch::Tensor> expected = {torch::randn({large}), torch::randn({3, 5})};
  const std::vector<torch::Tensor> got = {expected[0].clone(), expected[1].clone()};
  const TorchOptimizer optimizer = GetParam().make(expected);
  SlicedOptimizer sliced = Make(got, GetParam().options);
  for (int step = 0; step < 4; ++step) {
    const torch::Tensor gradient = torch::randn({large + 15});
    expected[0].mutable_grad() = gradient.narrow(0, 0, large);
    expected[1].mutable_grad() = gradient.narrow(0, large, 15).view({3, 5});
    optimizer->param_groups()[0].options().set_lr(RateOf(step));
    optimizer->step();
    sliced.Step(gradient, RateOf(step));
    EXPECT_EQ(Sha256(got), Sha256(expected)) << "step " << step;
  }
}

constexpr int64_t kLarge = 70001;

TEST_P(SlicedOptimizerTest, SetState_OfAnother_GoesOnWithItsBits) {
  torch::manual_seed(1);
  const torch::Tensor first = torch::ones({kLarge});
  SlicedOptimizer optimizer = Make({first}, GetParam().options);
  for (int step = 0; step < 2; ++step) optimizer.Step(torch::randn({kLarge}), RateOf(step));
  const torch::Tensor second = first.clone();
  SlicedOptimizer other = Make({second}, GetParam().options);
  ASSERT_TRUE(other.SetState(optimizer.State()).ok());
  const torch::Tensor gradient = torch::randn({kLarge});
  optimizer.Step(gradient, RateOf(2));
  other.Step(gradient, RateOf(2));
  EXPECT_EQ(Sha256({second}), Sha256({first}));
}

TEST_P(SlicedOptimizerTest, SetState_StepsAfterwards_LeaveWhatWasGivenAsItWas) {
  const torch::Tensor parameter = torch::ones({kLarge});
  SlicedOptimizer optimizer = Make({parameter}, GetParam().options);
  optimizer.Step(torch::ones({kLarge}), RateOf(0));
  const std::vector<torch::Tensor> given = optimizer.State();
  const std::string before = Sha256(given);
  ASSERT_TRUE(optimizer.SetState(given).ok());
  optimizer.Step(torch::full({kLarge}, 2.0f), RateOf(1));
  EXPECT_EQ(Sha256(given), before);
}

TEST_P(SlicedOptimizerTest, Undo_OfTheFirstStepOrALaterOne_GoesOnAsIfThereHadBeenNone) {
  for (const int steps_before : {0, 2}) {
    torch::manual_seed(1);
    const torch::Tensor expected = torch::randn({kLarge});
    const torch::Tensor got = expected.clone();
    SlicedOptimizer straight = Make({expected}, GetParam().options);
    SlicedOptimizer undone = Make({got}, GetParam().options);
    for (int step = 0; step <= steps_before; ++step) {
      const torch::Tensor gradient = torch::randn({kLarge});
      straight.Step(gradient, RateOf(step));
      undone.Save();
      if (step == steps_before) {
        undone.Step(torch::randn({kLarge}), 1);
        ASSERT_NE(Sha256({got}), Sha256({expected}));
        undone.Undo();
      }
      undone.Step(gradient, RateOf(step));
    }
    EXPECT_EQ(Sha256({got}), Sha256({expected})) << steps_before << " steps before";
    const auto states = {straight.State(), undone.State()};
    EXPECT_EQ(Sha256(*states.begin()), Sha256(*(states.end() - 1)));
  }
}

INSTANTIATE_TEST_SUITE_P(AllKinds, SlicedOptimizerTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return std::string(info.param.name); });

class SlicedOptimizerStateTest : public ::testing::Test {
 protected:
  torch::Tensor parameter_ = torch::ones({kLarge});
  SlicedOptimizer sgd_ = Make({parameter_}, {"sgd", 0.9, 0, false});
  SlicedOptimizer adam_ = Make({parameter_}, {"adam", 0, 0, false});
};

TEST_F(SlicedOptimizerStateTest, State_AfterMoreSteps_WasACopy) {
  sgd_.Step(torch::ones({kLarge}), 0.1);
  const std::vector<torch::Tensor> state = sgd_.State();
  sgd_.Step(torch::ones({kLarge}), 0.1);
  EXPECT_TRUE(state[0].equal(torch::ones({kLarge})));
}

TEST_F(SlicedOptimizerStateTest, State_OfAdam_StepAndBothMoments) {
  for (int step = 0; step < 3; ++step) adam_.Step(torch::ones({kLarge}), 0.1);
  const std::vector<torch::Tensor> state = adam_.State();
  ASSERT_EQ(state.size(), 3u);
  EXPECT_EQ(state[0].item<int64_t>(), 3);
  EXPECT_EQ(state[1].numel(), kLarge);
  EXPECT_EQ(state[2].numel(), kLarge);
}

TEST_F(SlicedOptimizerStateTest, State_NoStepOrNoMomentum_Empty) {
  EXPECT_TRUE(sgd_.State().empty());
  EXPECT_TRUE(adam_.State().empty());
  SlicedOptimizer without = Make({parameter_}, {"sgd", 0, 0, false});
  without.Step(torch::ones({kLarge}), 0.1);
  EXPECT_TRUE(without.State().empty());
}

TEST_F(SlicedOptimizerStateTest, SetState_Empty_StartsAnew) {
  sgd_.Step(torch::ones({kLarge}), 0.1);
  ASSERT_TRUE(sgd_.SetState({}).ok());
  parameter_.fill_(1);
  sgd_.Step(torch::ones({kLarge}), 0.1);
  EXPECT_FLOAT_EQ(parameter_[0].item<float>(), 0.9f);
}

TEST_F(SlicedOptimizerStateTest, SetState_OtherSizeOrKind_InvalidArgument) {
  EXPECT_EQ(
      sgd_.SetState({torch::ones({3})}),
      absl::InvalidArgumentError("state of an optimizer: got [3 Float], expected [70001 Float]"));
  EXPECT_EQ(adam_.SetState({torch::ones({kLarge})}),
            absl::InvalidArgumentError("state of an optimizer: got [70001 Float], expected "
                                       "[1 Long, 70001 Float, 70001 Float]"));
}

TEST(FindOptimizer, UnknownName_ListsThoseThatExist) {
  EXPECT_EQ(
      FindOptimizer({"lion", 0, 0, false}).status(),
      absl::NotFoundError("optimizer 'lion' does not exist; expected one of: sgd adam adamw"));
}

}  // namespace
}  // namespace gradwire
