// Kernels of which fold_test.cc and half_test.cc know nothing.
#include "common/fold/kernels.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/random_floats.h"

namespace gradwire {
namespace {

using testing::RandomFloats;

// As the header says.
float DotOf(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> sums(32);
  for (size_t i = 0; i < a.size(); ++i) {
    const volatile float product = a[i] * b[i];  // never fused
    sums[i % 32] += product;
  }
  for (size_t half = 16; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

TEST(Kernels, Dot_AnySet_BitsOfTheDefinition) {
  for (const size_t count : {0, 1, 7, 31, 32, 33, 64, 1000, 4097}) {
    const std::vector<float> a = RandomFloats(count, 1), b = RandomFloats(count, 2);
    for (const KernelSet& set : SupportedKernels()) {
      EXPECT_EQ(set.dot(a.data(), b.data(), count), DotOf(a, b)) << set.name << ", " << count;
    }
  }
}

TEST(Kernels, AddMultiple_AnySet_BitsOfTheDefinition) {
  for (const size_t count : {0, 1, 7, 31, 64, 1000}) {
    const std::vector<float> in = RandomFloats(count, 1), before = RandomFloats(count, 2);
    for (const KernelSet& set : SupportedKernels()) {
      std::vector<float> out = before;
      set.add_multiple(in.data(), count, 0.3f, out.data());
      for (size_t i = 0; i < count; ++i) {
        const volatile float product = in[i] * 0.3f;
        ASSERT_EQ(out[i], before[i] + product) << set.name << ", " << i;
      }
    }
  }
}

}  // namespace
}  // namespace gradwire
