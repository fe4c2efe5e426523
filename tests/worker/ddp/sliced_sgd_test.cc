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

}  // namespace
}  // namespace gradwire
