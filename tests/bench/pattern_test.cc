#include "bench/rank/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/fold/fold.h"

namespace gradwire {
namespace {

constexpr int kRanks = 3;

// All of `size` elements are means.
std::vector<Expected> Means(size_t size) { return {{0, size, Expected::kMean}}; }

Pattern Of(size_t size, int rank, const std::string& backend = "sharded",
           const std::string& wire = "fp32") {
  return Pattern(size, kRanks, Rank(rank), ToleranceOf(backend, wire, kRanks));
}

// What an exact back end gives in `step`.
std::vector<float> MeanOf(Step step, size_t size) {
  std::vector<std::vector<float>> terms(kRanks, std::vector<float>(size));
  std::vector<ByteSpans> pieces;
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
    EXPECT_EQ(Of(size, 1).CountWrong(Step(5), mean, Means(size)), 0u) << size;
    uint64_t checked = 0;
    EXPECT_EQ(Of(size, 1).CountWrongSamples(Step(5), mean, Means(size), &checked), 0u) << size;
    EXPECT_EQ(checked, Pattern::SampleCount(size));
  }
}

TEST(Pattern, MeanOfAnotherStep_IsWrong) {
  EXPECT_GT(Of(1000, 0).CountWrong(Step(6), MeanOf(Step(5), 1000), Means(1000)), 990u);
}

TEST(Pattern, MeanInTheWrongPlace_IsWrong) {
  std::vector<float> mean = MeanOf(Step(0), 1 << 20);
  std::rotate(mean.begin(), mean.begin() + (1 << 18), mean.end());
  EXPECT_GT(Of(mean.size(), 0).CountWrong(Step(0), mean, Means(mean.size())), (1u << 20) - 1000);
}

TEST(Pattern, OneBitOff_IsWrongWhereTheFoldIsPromised) {
  std::vector<float> mean = MeanOf(Step(0), 100);
  mean[7] = std::nextafter(mean[7], 2.0f);
  EXPECT_EQ(Of(100, 0, "sharded").CountWrong(Step(0), mean, Means(100)), 1u);
  EXPECT_EQ(Of(100, 0, "gloo").CountWrong(Step(0), mean, Means(100)), 0u);
}

// A few roundings of the type, not a percent of the value.
TEST(Pattern, ErrorBeyondTheRoundingsOfTheType_IsWrong) {
  const std::vector<std::pair<std::string, float>> errors = {
      {"fp32", 2e-6f}, {"fp16", 0.004f}, {"bf16", 0.02f}};
  for (const auto& [wire, error] : errors) {
    std::vector<float> mean = MeanOf(Step(0), 1000);
    for (float& value : mean) value += error;
    EXPECT_EQ(Of(1000, 0, "gloo", wire).CountWrong(Step(0), mean, Means(1000)), 1000u) << wire;
  }
}

TEST(Pattern, ATermMissing_IsWrongInEveryType) {
  std::vector<float> terms(1000);
  std::vector<float> mean = MeanOf(Step(0), 1000);
  Of(terms.size(), 1).Fill(Step(0), absl::MakeSpan(terms));
  for (size_t i = 0; i < mean.size(); ++i) mean[i] -= terms[i] / kRanks;
  for (const char* wire : {"fp32", "bf16", "fp16"}) {
    EXPECT_GT(Of(1000, 0, "ring", wire).CountWrong(Step(0), mean, Means(1000)), 900u) << wire;
  }
}

TEST(Pattern, NotANumber_IsWrong) {
  const std::vector<float> mean(10, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(Of(10, 0, "ring", "bf16").CountWrong(Step(0), mean, Means(10)), 10u);
}

TEST(FillSamples, LargeBucket_SpoilsAndChecksFirstAndLast) {
  std::vector<float> terms(100000), mean = MeanOf(Step(3), 100000);
  Of(terms.size(), 0).FillSamples(Step(3), absl::MakeSpan(terms), absl::MakeSpan(mean));
  EXPECT_TRUE(std::isnan(mean.front()));
  EXPECT_TRUE(std::isnan(mean.back()));
  uint64_t checked = 0;
  EXPECT_EQ(Of(mean.size(), 0).CountWrongSamples(Step(3), mean, Means(100000), &checked),
            Pattern::SampleCount(100000));
}

TEST(Pattern, TermsOfAnotherRank_AreWrong) {
  std::vector<float> terms(100);
  Of(100, 1).Fill(Step(2), absl::MakeSpan(terms));
  EXPECT_EQ(Of(100, 0).CountWrong(Step(2), terms, {{0, 100, 1}}), 0u);
  EXPECT_EQ(Of(100, 0).CountWrong(Step(2), terms, {{10, 100, 2}}), 90u);
}

TEST(CountWrongSamples, WhereNothingComesOut_NothingIsChecked) {
  const std::vector<float> got(100, std::numeric_limits<float>::quiet_NaN());
  uint64_t checked = 0;
  EXPECT_EQ(Of(100, 0).CountWrongSamples(Step(2), got, {{20, 30, 1}}, &checked), 10u);
  EXPECT_EQ(checked, 10u);
}

// Which elements of 12 come out at each of three ranks, and whose they are.
std::string Shape(const std::string& operation) {
  std::string shape;
  for (int rank = 0; rank < kRanks; ++rank) {
    std::string elements(12, '.');
    for (const Expected& part :
         ExpectedOf(OperationCalled(operation), Rank(rank), kRanks, elements.size())) {
      const char source = part.rank == Expected::kMean ? 'm' : static_cast<char>('0' + part.rank);
      std::fill(elements.begin() + part.begin, elements.begin() + part.end, source);
    }
    shape += elements + (rank < 2 ? " " : "");
  }
  return shape;
}

TEST(ExpectedOf, EveryOperation_HasItsShape) {
  EXPECT_EQ(Shape("send-recv"), "............ ............ 000000000000");
  EXPECT_EQ(Shape("broadcast"), "000000000000 000000000000 000000000000");
  EXPECT_EQ(Shape("scatter"), "0000........ ....0000.... ........0000");
  EXPECT_EQ(Shape("gather"), "000011112222 ............ ............");
  EXPECT_EQ(Shape("reduce"), "mmmmmmmmmmmm ............ ............");
  EXPECT_EQ(Shape("all-gather"), "000011112222 000011112222 000011112222");
  EXPECT_EQ(Shape("reduce-scatter"), "mmmm........ ....mmmm.... ........mmmm");
  EXPECT_EQ(Shape("all-reduce"), "mmmmmmmmmmmm mmmmmmmmmmmm mmmmmmmmmmmm");
}

TEST(FillSamples, SmallBucket_FillsAll) {
  std::vector<float> terms(100), mean(100), expected(100);
  Of(terms.size(), 2).FillSamples(Step(4), absl::MakeSpan(terms), absl::MakeSpan(mean));
  Of(terms.size(), 2).Fill(Step(4), absl::MakeSpan(expected));
  EXPECT_EQ(terms, expected);
}

}  // namespace
}  // namespace gradwire
