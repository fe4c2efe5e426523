#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "common/fold/fold.h"
#include "tests/support/random_floats.h"

namespace gradwire {
namespace {

// Longer than a tile, and a multiple of nothing.
constexpr size_t kOfFirst = 5003, kOfSecond = 77;

std::vector<std::vector<float>> TermsOfHops(size_t ranks) {
  std::mt19937 random(7);
  std::vector<std::vector<float>> terms(ranks);
  for (auto& term : terms) term = testing::RandomFloats(kOfFirst + kOfSecond, &random, 10);
  return terms;
}

// A ring, hop by hop: rounds the first term, and each sum.
std::vector<uint8_t> RingMean(const std::vector<std::vector<float>>& terms, v1::DType dtype,
                              size_t begin, size_t count, size_t first) {
  const uint64_t bytes = count * ElementBytes(dtype);
  std::vector<uint8_t> sum(bytes), next(bytes);
  Narrow({terms[first].data() + begin, count}, dtype, sum.data());
  for (size_t hop = 1; hop < terms.size(); ++hop) {
    const float scale = hop + 1 == terms.size() ? 1.0f / static_cast<float>(terms.size()) : 1.0f;
    const float* term = terms[(first + hop) % terms.size()].data() + begin;
    AddScaled({sum}, dtype, term, scale, absl::MakeSpan(next));
    sum.swap(next);
  }
  return sum;
}

TEST(FoldByHopsTest, FoldByHops_SeveralRangesAndRanks_BitsOfARing) {
  for (const v1::DType dtype : {v1::DTYPE_FLOAT32, v1::DTYPE_BFLOAT16, v1::DTYPE_FLOAT16}) {
    for (const size_t ranks : {1, 2, 3, 5}) {
      const auto terms = TermsOfHops(ranks);
      std::vector<const float*> starts;
      for (const auto& term : terms) starts.push_back(term.data());
      const int last = static_cast<int>(ranks) - 1;
      const std::vector<FoldRange> ranges = {{0, 4 * kOfFirst, last},
                                             {4 * kOfFirst, 4 * kOfSecond, 0}};
      std::vector<uint8_t> mean((kOfFirst + kOfSecond) * ElementBytes(dtype));
      EXPECT_EQ(0u, FoldByHops(starts, dtype, ranges, absl::MakeSpan(mean)));
      std::vector<uint8_t> expected = RingMean(terms, dtype, 0, kOfFirst, last);
      const std::vector<uint8_t> second = RingMean(terms, dtype, kOfFirst, kOfSecond, 0);
      expected.insert(expected.end(), second.begin(), second.end());
      EXPECT_TRUE(mean == expected) << "of " << ranks << " ranks in type " << dtype;
    }
  }
}

TEST(FoldByHopsTest, FoldByHops_SumTooLargeForTheType_NamesTheRankThatAdded) {
  const std::vector<float> term = {40000};  // the sum of two is infinite in FLOAT16, not the mean
  const FoldRange all{0, sizeof(float), 0};
  std::vector<uint8_t> mean(4);
  const std::vector<const float*> terms = {term.data(), term.data(), term.data()};
  const FoldRange from_second{0, sizeof(float), 1};
  EXPECT_EQ(0b010u, FoldByHops(terms, v1::DTYPE_FLOAT16, {all}, {mean.data(), 2}));
  EXPECT_EQ(0b100u, FoldByHops(terms, v1::DTYPE_FLOAT16, {from_second}, {mean.data(), 2}));
  EXPECT_EQ(0u, FoldByHops(terms, v1::DTYPE_FLOAT32, {all}, {mean.data(), 4}));
}

}  // namespace
}  // namespace gradwire
