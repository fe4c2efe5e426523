#include "common/fold/fold.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "common/fold/kernels.h"
#include "common/wire/layout.h"
#include "tests/support/random_floats.h"

namespace gradwire {
namespace {

std::vector<float> RandomValues(size_t count, uint32_t seed) {
  return testing::RandomFloats(count, seed, 100);
}

absl::Span<const uint8_t> BytesOf(const std::vector<float>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), 4 * values.size()};
}

// As the header defines it, element by element; sums begin with rank `first`.
std::vector<float> SlowFold(const std::vector<std::vector<float>>& terms, size_t first) {
  std::vector<float> mean(terms[0].size());
  const float scale = 1.0f / static_cast<float>(terms.size());
  for (size_t i = 0; i < mean.size(); ++i) {
    volatile float sum = terms[first][i];
    for (size_t r = 1; r < terms.size(); ++r) sum = sum + terms[(first + r) % terms.size()][i];
    mean[i] = sum * scale;
  }
  return mean;
}

// Of float32, all in one range.
std::vector<float> FoldFrom(int first, const std::vector<ByteSpans>& terms) {
  std::vector<float> mean(TotalBytes(terms[0]) / 4, -1);
  const FoldRange all{0, 4 * mean.size(), first};
  Fold(terms, v1::DTYPE_FLOAT32, {all}, {reinterpret_cast<uint8_t*>(mean.data()), 4 * mean.size()});
  return mean;
}

// The bytes in pieces of random sizes, some empty, many not whole elements.
ByteSpans RandomPieces(absl::Span<const uint8_t> bytes, std::mt19937* random) {
  ByteSpans pieces;
  std::uniform_int_distribution<size_t> size(0, 1000);
  while (!bytes.empty()) {
    const auto piece = bytes.subspan(0, size(*random));
    pieces.push_back(piece);
    bytes.remove_prefix(piece.size());
  }
  return pieces;
}

TEST(FoldTest, Fold_AnyRanksSizesAndPieces_ExactlyTheDefinition) {
  std::mt19937 random(1);
  for (const size_t ranks : {1, 2, 3, 4, 7, 16, 20}) {
    for (const size_t count : {0, 1, 2, 63, 64, 65, 1000, 4097}) {
      std::vector<std::vector<float>> terms;
      for (size_t r = 0; r < ranks; ++r) terms.push_back(RandomValues(count, 100 * r + count));
      std::vector<ByteSpans> pieces;
      for (const auto& term : terms) pieces.push_back(RandomPieces(BytesOf(term), &random));
      for (const size_t first : {size_t{0}, ranks / 2, ranks - 1}) {
        const std::vector<float> mean = FoldFrom(static_cast<int>(first), pieces);
        const std::vector<float> expected = SlowFold(terms, first);
        ASSERT_TRUE(BytesOf(mean) == BytesOf(expected)) << ranks << " " << count << " " << first;
      }
    }
  }
}

TEST(FoldTest, Fold_UnalignedMemory_ExactlyTheDefinition) {
  const std::vector<std::vector<float>> terms = {RandomValues(500, 1), RandomValues(500, 2)};
  std::vector<std::vector<uint8_t>> memory;
  std::vector<ByteSpans> pieces;
  for (size_t r = 0; r < terms.size(); ++r) {
    memory.emplace_back(2003);
    std::memcpy(memory[r].data() + 1 + r, terms[r].data(), 2000);
  }
  for (size_t r = 0; r < terms.size(); ++r) pieces.push_back({{memory[r].data() + 1 + r, 2000}});
  EXPECT_EQ(FoldFrom(0, pieces), SlowFold(terms, 0));
}

TEST(FoldTest, Fold_OrderMatters_BeginsWithTheFirstRank) {
  const std::vector<float> big = {1e8f}, one = {1.0f}, minus = {-1e8f};
  const std::vector<ByteSpans> terms = {{BytesOf(big)}, {BytesOf(one)}, {BytesOf(minus)}};
  EXPECT_EQ(FoldFrom(0, terms)[0], 0.0f);                  // (big + one) + minus
  EXPECT_EQ(FoldFrom(2, terms)[0], 1.0f * (1.0f / 3.0f));  // (minus + big) + one
}

TEST(FoldTest, Fold_SeveralRanges_EachFromItsFirstRank) {
  std::mt19937 random(2);
  std::vector<std::vector<float>> terms;
  std::vector<ByteSpans> pieces;
  for (size_t r = 0; r < 3; ++r) terms.push_back(RandomValues(1000, r));
  for (const auto& term : terms) pieces.push_back(RandomPieces(BytesOf(term), &random));
  const std::vector<FoldRange> ranges = {{0, 4 * 7, 2}, {4 * 7, 4 * 600, 0}, {4 * 607, 4 * 393, 1}};
  std::vector<float> mean(1000);
  Fold(pieces, v1::DTYPE_FLOAT32, ranges, {reinterpret_cast<uint8_t*>(mean.data()), 4000});
  for (size_t i = 0; i < mean.size(); ++i) {
    const size_t first = i < 7 ? 2 : i < 607 ? 0 : 1;
    ASSERT_EQ(mean[i], SlowFold(terms, first)[i]) << i;
  }
}

TEST(FoldTest, AddScaled_PiecesThatSplitElements_SumTimesScale) {
  const std::vector<float> a = RandomValues(300, 1), b = RandomValues(300, 2);
  std::mt19937 random(3);
  std::vector<float> out(300);
  AddScaled(RandomPieces(BytesOf(a), &random), v1::DTYPE_FLOAT32, b.data(), 0.25f,
            {reinterpret_cast<uint8_t*>(out.data()), 4 * out.size()});
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], (a[i] + b[i]) * 0.25f) << i;
}

// As the header defines it for the types of the wire.
std::vector<uint8_t> SlowFold(const std::vector<std::vector<uint8_t>>& terms, v1::DType dtype) {
  const size_t count = terms[0].size() / ElementBytes(dtype);
  std::vector<std::vector<float>> wide(terms.size(), std::vector<float>(count));
  for (size_t r = 0; r < terms.size(); ++r) {
    Widen({{terms[r].data(), terms[r].size()}}, dtype, absl::MakeSpan(wide[r]));
  }
  std::vector<uint8_t> mean(terms[0].size());
  Narrow(SlowFold(wide, 0), dtype, mean.data());
  return mean;
}

std::vector<uint8_t> Wire(const std::vector<float>& values, v1::DType dtype) {
  std::vector<uint8_t> wire(values.size() * ElementBytes(dtype));
  Narrow(values, dtype, wire.data());
  return wire;
}

TEST(FoldTest, Fold_WireTypes_SummedInFloat32AndRoundedOnce) {
  std::mt19937 random(1);
  for (const v1::DType dtype : {v1::DTYPE_FLOAT32, v1::DTYPE_BFLOAT16, v1::DTYPE_FLOAT16}) {
    for (const size_t ranks : {1, 2, 3, 4, 7, 20}) {
      for (const size_t count : {0, 1, 63, 64, 1000, 4097}) {
        std::vector<std::vector<uint8_t>> terms;
        for (size_t r = 0; r < ranks; ++r) terms.push_back(Wire(RandomValues(count, r), dtype));
        std::vector<ByteSpans> pieces;
        for (const auto& term : terms) pieces.push_back(RandomPieces(term, &random));
        std::vector<uint8_t> mean(terms[0].size());
        EXPECT_FALSE(Fold(pieces, dtype, {{0, mean.size(), 0}}, absl::MakeSpan(mean)));
        ASSERT_EQ(mean, SlowFold(terms, dtype)) << dtype << " " << ranks << " " << count;
      }
    }
  }
}

TEST(FoldTest, Kernels_EveryInstructionSet_SameBits) {
  for (const v1::DType dtype : {v1::DTYPE_FLOAT32, v1::DTYPE_BFLOAT16, v1::DTYPE_FLOAT16}) {
    const std::vector<uint8_t> a = Wire(RandomValues(3333, 1), dtype);
    const std::vector<uint8_t> b = Wire(RandomValues(3333, 2), dtype);
    const std::vector<float> own = RandomValues(3333, 3);
    std::vector<uint8_t> first_fold, first_sum;
    for (const KernelSet& set : SupportedKernels()) {
      std::vector<uint8_t> fold(a.size()), sum(a.size());
      set.For(dtype).fold({a.data(), b.data()}, own.size(), 1.0f / 3, fold.data());
      set.For(dtype).add_scaled(a.data(), own.data(), own.size(), 1.0f / 3, sum.data());
      if (first_fold.empty()) first_fold = fold;
      if (first_sum.empty()) first_sum = sum;
      EXPECT_TRUE(fold == first_fold) << set.name << " " << dtype;
      EXPECT_TRUE(sum == first_sum) << set.name << " " << dtype;
    }
  }
}

TEST(FoldTest, AddScaled_WireTypes_SumInFloat32RoundedOnce) {
  std::mt19937 random(3);
  const std::vector<float> b = RandomValues(300, 2);
  for (const v1::DType dtype : {v1::DTYPE_BFLOAT16, v1::DTYPE_FLOAT16}) {
    const std::vector<uint8_t> a = Wire(RandomValues(300, 1), dtype);
    std::vector<float> sum(300);
    Widen({{a.data(), a.size()}}, dtype, absl::MakeSpan(sum));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = (sum[i] + b[i]) * 0.25f;
    std::vector<uint8_t> out(a.size());
    EXPECT_FALSE(AddScaled(RandomPieces(a, &random), dtype, b.data(), 0.25f, absl::MakeSpan(out)));
    EXPECT_EQ(out, Wire(sum, dtype));
  }
}

TEST(FoldTest, AddScaled_SumTooLargeForFloat16_OverflowIsReported) {
  const std::vector<uint8_t> a = Wire({60000.0f}, v1::DTYPE_FLOAT16);
  const float b = 60000.0f;
  std::vector<uint8_t> out(2);
  EXPECT_TRUE(AddScaled({a}, v1::DTYPE_FLOAT16, &b, 1.0f, absl::MakeSpan(out)));
  EXPECT_FALSE(AddScaled({a}, v1::DTYPE_FLOAT16, &b, 0.5f, absl::MakeSpan(out)));
}

TEST(FoldTest, AddScaled_OverflowInAnyPiece_IsReported) {
  for (const auto& values : {std::vector<float>{60000, 1}, std::vector<float>{1, 60000}}) {
    const std::vector<uint8_t> a = Wire(values, v1::DTYPE_FLOAT16);
    std::vector<uint8_t> out(4);
    const ByteSpans pieces = {{a.data(), 2}, {a.data() + 2, 2}};
    EXPECT_TRUE(AddScaled(pieces, v1::DTYPE_FLOAT16, values.data(), 1.0f, absl::MakeSpan(out)));
  }
}

}  // namespace
}  // namespace gradwire
