#include "bench/rank/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/fold/fold.h"

namespace gradwire {
namespace {

constexpr int kRanks = 3;

Pattern Of(size_t size, int rank, const std::string& backend = "sharded",
           const std::string& wire = "fp32") {
  return Pattern(size, kRanks, Rank(rank), ToleranceOf(backend, wire, kRanks));
}

// What an exact back end gives in `step`.
std::vector<float> MeanOf(Step step, size_t size) {
  std::vector<std::vector<float>> terms(kRanks, std::vector<float>(size));
  std::vector<Pieces> pieces;
  for (int rank = 0; rank < kRanks; ++rank) {
    Of(size, rank).Fill(step, absl::MakeSpan(terms[rank]));
    pieces.push_back({{reinterpret_cast<const uint8_t*>(terms[rank].data()), 4 * size}});
  }
  const BucketSpec bucket{4 * size, v1::DTYPE_FLOAT32};
  std::vector<float> mean(size);
  Fold(pieces, bucket.dtype, FoldBlocks({bucket}, kRanks).Cut(Bucket(0), 0, bucket.bytes),
       {reinterpret_cast<uint8_t*>(mean.data()), bucket.bytes});
  return mean;
}

TEST(Pattern, RightMean_HasNoWrongValues) {
  for (const size_t size : {size_t{1}, size_t{5}, size_t{4099}, size_t{20000}}) {
    const std::vector<float> mean = MeanOf(Step(5), size);
    EXPECT_EQ(Of(mean.size(), 1).CountWrong(Step(5), mean), 0u) << size;
    EXPECT_EQ(Of(mean.size(), 1).CountWrongSamples(Step(5), mean), 0u) << size;
  }
}

TEST(Pattern, MeanOfAnotherStep_IsWrong) {
  EXPECT_GT(Of(1000, 0).CountWrong(Step(6), MeanOf(Step(5), 1000)), 990u);
}

TEST(Pattern, MeanInTheWrongPlace_IsWrong) {
  std::vector<float> mean = MeanOf(Step(0), 1 << 20);
  std::rotate(mean.begin(), mean.begin() + (1 << 18), mean.end());
  EXPECT_GT(Of(mean.size(), 0).CountWrong(Step(0), mean), (1u << 20) - 1000);
}

TEST(Pattern, OneBitOff_IsWrongWhereTheFoldIsPromised) {
  std::vector<float> mean = MeanOf(Step(0), 100);
  mean[7] = std::nextafter(mean[7], 2.0f);
  EXPECT_EQ(Of(mean.size(), 0, "sharded").CountWrong(Step(0), mean), 1u);
  EXPECT_EQ(Of(mean.size(), 0, "gloo").CountWrong(Step(0), mean), 0u);
}

TEST(Pattern, ATermMissing_IsWrongInEveryType) {
  std::vector<float> terms(1000);
  std::vector<float> mean = MeanOf(Step(0), 1000);
  Of(terms.size(), 1).Fill(Step(0), absl::MakeSpan(terms));
  for (size_t i = 0; i < mean.size(); ++i) mean[i] -= terms[i] / kRanks;
  for (const char* wire : {"fp32", "bf16", "fp16"}) {
    EXPECT_GT(Of(mean.size(), 0, "ring", wire).CountWrong(Step(0), mean), 900u) << wire;
  }
}

TEST(Pattern, NotANumber_IsWrong) {
  const std::vector<float> mean(10, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(Of(mean.size(), 0, "ring", "bf16").CountWrong(Step(0), mean), 10u);
}

TEST(FillSamples, LargeBucket_SpoilsAndChecksFirstAndLast) {
  std::vector<float> terms(100000), mean = MeanOf(Step(3), 100000);
  Of(terms.size(), 0).FillSamples(Step(3), absl::MakeSpan(terms), absl::MakeSpan(mean));
  EXPECT_TRUE(std::isnan(mean.front()));
  EXPECT_TRUE(std::isnan(mean.back()));
  EXPECT_EQ(Of(mean.size(), 0).CountWrongSamples(Step(3), mean), Pattern::SampleCount(100000));
}

TEST(FillSamples, SmallBucket_FillsAll) {
  std::vector<float> terms(100), mean(100), expected(100);
  Of(terms.size(), 2).FillSamples(Step(4), absl::MakeSpan(terms), absl::MakeSpan(mean));
  Of(terms.size(), 2).Fill(Step(4), absl::MakeSpan(expected));
  EXPECT_EQ(terms, expected);
}

}  // namespace
}  // namespace gradwire
