#include "worker/learning/sliced_optimizer.h"

#include <gtest/gtest.h>

#include <functional>
#include <ostream>

#include "worker/ddp/model_layout.h"

namespace gradwire::sliced_optimizer_test {
namespace {

using TorchOptimizer = std::unique_ptr<torch::optim::Optimizer>;

// An optimiser of ours, and torch's.
struct Case {
  std::string name;
  OptimizerOptions options;
  std::function<TorchOptimizer(const std::vector<torch::Tensor>&)> make;
  bool by_torch = false;  // slice by slice, although there is a kernel

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

std::vector<Case> CasesOfRows() {
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

std::vector<Case> Cases() {
  std::vector<Case> cases = CasesOfRows();
  for (Case one : CasesOfRows()) {
    one.name += "ByTorch";
    one.by_torch = true;
    cases.push_back(one);
  }
  return cases;
}

// Of one step of a schedule.
double RateOf(int step) { return 0.1 / (1 + step); }

SlicedOptimizer Make(const std::vector<torch::Tensor>& parameters, const OptimizerOptions& options,
                     bool by_torch = false) {
  OptimizerKind kind = FindOptimizer(options).value();
  if (by_torch) kind.kernel = nullptr;
  return SlicedOptimizer(parameters, kind);
}

class SlicedOptimizerTest : public ::testing::TestWithParam<Case> {};

// One parameter is larger than a slice and no multiple of it, one is small.
TEST_P(SlicedOptimizerTest, Step_SeveralSteps_BitsOfTorch) {
  torch::manual_seed(1);
  const int64_t large = 70001 * at::get_num_threads();
  const std::vector<torch::Tensor> expected = {torch::randn({large}), torch::randn({3, 5})};
  const std::vector<torch::Tensor> got = {expected[0].clone(), expected[1].clone()};
  const TorchOptimizer optimizer = GetParam().make(expected);
  SlicedOptimizer sliced = Make(got, GetParam().options, GetParam().by_torch);
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
  SlicedOptimizer optimizer = Make({first}, GetParam().options, GetParam().by_torch);
  for (int step = 0; step < 2; ++step) optimizer.Step(torch::randn({kLarge}), RateOf(step));
  const torch::Tensor second = first.clone();
  SlicedOptimizer other = Make({second}, GetParam().options, GetParam().by_torch);
  ASSERT_TRUE(other.SetState(optimizer.State()).ok());
  const torch::Tensor gradient = torch::randn({kLarge});
  optimizer.Step(gradient, RateOf(2));
  other.Step(gradient, RateOf(2));
  EXPECT_EQ(Sha256({second}), Sha256({first}));
}

TEST_P(SlicedOptimizerTest, SetState_StepsAfterwards_LeaveWhatWasGivenAsItWas) {
  const torch::Tensor parameter = torch::ones({kLarge});
  SlicedOptimizer optimizer = Make({parameter}, GetParam().options, GetParam().by_torch);
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
    SlicedOptimizer straight = Make({expected}, GetParam().options, GetParam().by_torch);
    SlicedOptimizer undone = Make({got}, GetParam().options, GetParam().by_torch);
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

// As when the run loses workers again and again.
TEST_P(SlicedOptimizerTest, Undo_InEveryStep_GoesOnAsIfThereHadBeenNone) {
  torch::manual_seed(1);
  const torch::Tensor expected = torch::randn({kLarge});
  const torch::Tensor got = expected.clone();
  SlicedOptimizer straight = Make({expected}, GetParam().options, GetParam().by_torch);
  SlicedOptimizer undone = Make({got}, GetParam().options, GetParam().by_torch);
  for (int step = 0; step < 4; ++step) {
    const torch::Tensor gradient = torch::randn({kLarge});
    straight.Step(gradient, RateOf(step));
    for (int loss = 0; loss < 2; ++loss) {
      undone.Save();
      undone.Step(torch::randn({kLarge}), 1);
      undone.Undo();
    }
    undone.Save();
    undone.Step(gradient, RateOf(step));
    EXPECT_EQ(Sha256({got}), Sha256({expected})) << "step " << step;
  }
  EXPECT_EQ(Sha256(undone.State()), Sha256(straight.State()));
}

INSTANTIATE_TEST_SUITE_P(AllKinds, SlicedOptimizerTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

// A kernel that has other bits than torch is not used; so this test notices a wrong one.
TEST_P(SlicedOptimizerTest, FindOptimizer_EveryRow_HasAKernel) {
#if defined(__x86_64__)
  EXPECT_NE(FindOptimizer(GetParam().options)->kernel, nullptr);
#endif
}

TEST_P(SlicedOptimizerTest, Undo_AfterSaveAlone_ChangesNothing) {
  const torch::Tensor parameter = torch::ones({kLarge});
  SlicedOptimizer optimizer = Make({parameter}, GetParam().options, GetParam().by_torch);
  optimizer.Step(torch::ones({kLarge}), RateOf(0));
  const std::string parameters = Sha256({parameter}), state = Sha256(optimizer.State());
  optimizer.Save();
  optimizer.Undo();
  EXPECT_EQ(Sha256({parameter}), parameters);
  EXPECT_EQ(Sha256(optimizer.State()), state);
}

// The kernels with fused multiply-add, one after the other; the last one has none.
TEST(FusedKernels, AllWithFusedMultiplyAdd_HaveTheSameBits) {
  std::vector<FusedKernel> kernels = FusedKernels();
  if (kernels.size() > 1) kernels.pop_back();
  for (const Case& one : CasesOfRows()) {
    OptimizerKind kind = FindOptimizer(one.options).value();
    std::vector<std::string> hashes;
    for (const FusedKernel kernel : kernels) {
      torch::manual_seed(3);
      kind.kernel = kernel;
      const torch::Tensor parameter = torch::randn({kLarge});
      SlicedOptimizer optimizer({parameter}, kind);
      for (int step = 0; step < 3; ++step) optimizer.Step(torch::randn({kLarge}), RateOf(step));
      hashes.push_back(Sha256({parameter}));
      EXPECT_EQ(hashes.back(), hashes.front()) << one.name;
    }
  }
}

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

// Checkpoints have a tensor for each.
TEST(FindOptimizer, EachRow_NamesItsState) {
  for (const char* name : {"sgd", "adam", "adamw"}) {
    const auto kind = FindOptimizer({name, 0, 0, false});
    ASSERT_TRUE(kind.ok()) << name;
    EXPECT_EQ(kind->names.size(), kind->dimensions.size()) << name;
  }
}

TEST(FindOptimizer, UnknownName_ListsThoseThatExist) {
  EXPECT_EQ(
      FindOptimizer({"lion", 0, 0, false}).status(),
      absl::NotFoundError("optimizer 'lion' does not exist; expected one of: sgd adam adamw"));
}

}  // namespace
}  // namespace gradwire::sliced_optimizer_test
