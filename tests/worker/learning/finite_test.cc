#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "worker/learning/clip_norm.h"

namespace gradwire {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(FiniteTest, AllFinite_FiniteValues_True) {
  EXPECT_TRUE(AllFinite(torch::tensor({0.0f, -0.0f, 1.0f, std::numeric_limits<float>::max(),
                                       std::numeric_limits<float>::lowest(),
                                       std::numeric_limits<float>::denorm_min()})));
}

TEST(FiniteTest, AllFinite_Nothing_True) { EXPECT_TRUE(AllFinite(torch::empty({0}))); }

TEST(FiniteTest, AllFinite_OneValueAnywhere_False) {
  for (const float value : {kInfinity, -kInfinity, std::nanf("1"), -std::nanf("")}) {
    for (int64_t at = 0; at < 67; ++at) {
      torch::Tensor tensor = torch::ones({67});
      tensor[at] = value;
      EXPECT_FALSE(AllFinite(tensor)) << value << " at " << at;
    }
  }
}

TEST(FiniteTest, AllFinite_PartOfATensor_LooksAtItAlone) {
  torch::Tensor tensor = torch::ones({8});
  tensor[0] = kInfinity;
  tensor[7] = kInfinity;
  EXPECT_TRUE(AllFinite(tensor.narrow(0, 1, 6)));
}

}  // namespace
}  // namespace gradwire
