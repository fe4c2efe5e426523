#include "worker/sync/model_drift.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace gradwire {
namespace {

// An outer step after a restored one is as if there had been no break.
TEST(ModelDrift, Restore_CapturedState_NextStepsHaveItsBits) {
  const OuterStep outer{0.7, 0.9};
  torch::Tensor module = torch::randn({70000});
  ModelDrift first({{module}}, false, 1, outer), second({{module}}, false, 1, outer);
  const auto step = [&module](ModelDrift& drift, const torch::Tensor& change) {
    module.add_(change);
    drift.Measure(0, 0);
    std::copy(drift.drift(0, 0).begin(), drift.drift(0, 0).end(), drift.mean(0).begin());
    drift.Step(0);
    drift.Reset(0);
  };
  const torch::Tensor changes[] = {torch::randn({70000}), torch::randn({70000}),
                                   torch::randn({70000})};
  step(first, changes[0]);
  const ModelDrift::State state = first.Capture();
  step(first, changes[1]);
  step(first, changes[2]);
  const torch::Tensor expected = module.clone();
  ASSERT_TRUE(second.Restore(state).ok());
  second.Reset(0);
  step(second, changes[1]);
  step(second, changes[2]);
  EXPECT_TRUE(torch::equal(module, expected));
}

TEST(ModelDrift, Restore_OtherSizes_InvalidArgument) {
  ModelDrift drift({{torch::zeros({3})}}, false, 1, {});
  EXPECT_EQ(
      drift.Restore(ModelDrift({{torch::zeros({4})}}, false, 1, {}).Capture()),
      absl::InvalidArgumentError("state of an outer step: got buckets of 4 elements, expected 3"));
}

TEST(ModelDrift, Buffers_WithAnOuterStep_TakeThePlainOne) {
  torch::Tensor parameter = torch::ones({1}), buffer = torch::ones({1});
  ModelDrift drift({{parameter}, {buffer}}, /*buffers=*/true, 1, OuterStep{0.5, 0});
  parameter.fill_(3);
  buffer.fill_(3);
  for (size_t bucket : {0, 1}) {
    drift.Measure(bucket, 0);
    std::copy(drift.drift(bucket, 0).begin(), drift.drift(bucket, 0).end(),
              drift.mean(bucket).begin());
    drift.Step(bucket);
    drift.Reset(bucket);
  }
  EXPECT_EQ(parameter.item<float>(), 2);
  EXPECT_EQ(buffer.item<float>(), 3);
}

}  // namespace
}  // namespace gradwire
