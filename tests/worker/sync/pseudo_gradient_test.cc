#include "worker/sync/pseudo_gradient.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace gradwire {
namespace {

// An outer step after a restored one is as if there had been no break.
TEST(PseudoGradient, Restore_CapturedState_NextStepsHaveItsBits) {
  const OuterStep outer{0.7, 0.9};
  torch::Tensor module = torch::randn({70000});
  PseudoGradient first({{module}}, false, 1, outer), second({{module}}, false, 1, outer);
  const auto step = [&module](PseudoGradient& pseudo_gradient, const torch::Tensor& change) {
    module.add_(change);
    pseudo_gradient.Measure(0, 0);
    std::copy(pseudo_gradient.pseudo_gradient(0, 0).begin(),
              pseudo_gradient.pseudo_gradient(0, 0).end(), pseudo_gradient.mean(0).begin());
    pseudo_gradient.Step(0);
    pseudo_gradient.Reset(0);
  };
  const torch::Tensor changes[] = {torch::randn({70000}), torch::randn({70000}),
                                   torch::randn({70000})};
  step(first, changes[0]);
  const PseudoGradient::State state = first.Capture();
  step(first, changes[1]);
  step(first, changes[2]);
  const torch::Tensor expected = module.clone();
  ASSERT_TRUE(second.Restore(state).ok());
  second.Reset(0);
  step(second, changes[1]);
  step(second, changes[2]);
  EXPECT_TRUE(torch::equal(module, expected));
}

TEST(PseudoGradient, Restore_OtherSizes_InvalidArgument) {
  PseudoGradient pseudo_gradient({{torch::zeros({3})}}, false, 1, {});
  EXPECT_EQ(
      pseudo_gradient.Restore(PseudoGradient({{torch::zeros({4})}}, false, 1, {}).Capture()),
      absl::InvalidArgumentError("state of an outer step: got buckets of 4 elements, expected 3"));
}

TEST(PseudoGradient, Buffers_WithAnOuterStep_TakeThePlainOne) {
  torch::Tensor parameter = torch::ones({1}), buffer = torch::ones({1});
  PseudoGradient pseudo_gradient({{parameter}, {buffer}}, /*buffers=*/true, 1, OuterStep{0.5, 0});
  parameter.fill_(3);
  buffer.fill_(3);
  for (size_t bucket : {0, 1}) {
    pseudo_gradient.Measure(bucket, 0);
    std::copy(pseudo_gradient.pseudo_gradient(bucket, 0).begin(),
              pseudo_gradient.pseudo_gradient(bucket, 0).end(),
              pseudo_gradient.mean(bucket).begin());
    pseudo_gradient.Step(bucket);
    pseudo_gradient.Reset(bucket);
  }
  EXPECT_EQ(parameter.item<float>(), 2);
  EXPECT_EQ(buffer.item<float>(), 3);
}

}  // namespace
}  // namespace gradwire
