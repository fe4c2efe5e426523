#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/compress/low_rank/low_rank_bucket.h"
#include "tests/support/random_floats.h"

namespace gradwire {
namespace {

using ::testing::Each;

constexpr uint64_t kLength = 300;
using Vectors = std::vector<float>;

Vectors Normal(size_t count, float scale) {
  return testing::RandomFloats(count * kLength, 7, scale);
}

double Product(const Vectors& vectors, size_t i, size_t j) {
  double sum = 0;
  for (size_t k = 0; k < kLength; ++k) {
    sum += static_cast<double>(vectors[i * kLength + k]) * vectors[j * kLength + k];
  }
  return sum;
}

void ExpectOrthonormal(const Vectors& vectors) {
  for (size_t i = 0; i * kLength < vectors.size(); ++i) {
    for (size_t j = 0; j <= i; ++j) {
      EXPECT_NEAR(Product(vectors, i, j), i == j ? 1 : 0, 1e-6) << i << ", " << j;
    }
  }
}

// One at the place of the attempt.
void DrawUnit(size_t, int attempt, absl::Span<float> vector) {
  std::fill(vector.begin(), vector.end(), 0.0f);
  vector[static_cast<size_t>(attempt) % vector.size()] = 1;
}

TEST(Orthonormalize, AnyScale_IsOrthonormal) {
  for (const float scale : {1e-38f, 1.0f, 1e37f}) {
    Vectors vectors = Normal(8, scale);
    Orthonormalize(absl::MakeSpan(vectors), kLength, nullptr);
    ExpectOrthonormal(vectors);
  }
}

TEST(Orthonormalize, NearlyDependent_IsOrthonormal) {
  Vectors vectors = Normal(4, 1);
  for (size_t k = 0; k < kLength; ++k) {
    vectors[kLength + k] = vectors[k] + 1e-4f * vectors[kLength + k];
  }
  Orthonormalize(absl::MakeSpan(vectors), kLength, nullptr);
  ExpectOrthonormal(vectors);
}

TEST(Orthonormalize, DependentWithoutDraw_BecomesZero) {
  Vectors vectors = Normal(2, 1);
  for (size_t k = 0; k < kLength; ++k) vectors[kLength + k] = 3 * vectors[k];
  Orthonormalize(absl::MakeSpan(vectors), kLength, nullptr);
  EXPECT_NEAR(Product(vectors, 0, 0), 1, 1e-6);
  EXPECT_EQ(Product(vectors, 1, 1), 0);
}

TEST(Orthonormalize, ZerosWithDraw_TakesTheFirstThatAreOfUse) {
  Vectors vectors(3 * kLength);
  Orthonormalize(absl::MakeSpan(vectors), kLength, DrawUnit);
  ExpectOrthonormal(vectors);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(vectors[i * kLength + i], 1) << i;
}

TEST(Orthonormalize, MoreVectorsThanDimensions_OthersAreZero) {
  Vectors vectors = {3, 4};
  Orthonormalize(absl::MakeSpan(vectors), 1, DrawUnit);
  EXPECT_EQ(vectors, (Vectors{1, 0}));
}

TEST(Orthonormalize, Nothing_IsFine) {
  Orthonormalize({}, 5, nullptr);
  Vectors vectors = Normal(1, 0);
  Orthonormalize(absl::MakeSpan(vectors), kLength, nullptr);
  EXPECT_THAT(vectors, Each(0.0f));
}

}  // namespace
}  // namespace gradwire
