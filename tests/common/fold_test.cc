#include "common/fold.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace gradwire {
namespace {

std::vector<float> RandomValues(size_t count, uint64_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 100);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

absl::Span<const uint8_t> BytesOf(const std::vector<float>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), 4 * values.size()};
}

// As the header defines it, element by element.
std::vector<float> SlowFold(const std::vector<std::vector<float>>& terms) {
  std::vector<float> mean(terms[0].size());
  const float scale = 1.0f / static_cast<float>(terms.size());
  for (size_t i = 0; i < mean.size(); ++i) {
    volatile float sum = terms[0][i];
    for (size_t r = 1; r < terms.size(); ++r) sum = sum + terms[r][i];
    mean[i] = sum * scale;
  }
  return mean;
}

// The bytes in pieces of random sizes, some empty, many not whole elements.
Pieces RandomPieces(absl::Span<const uint8_t> bytes, std::mt19937* random) {
  Pieces pieces;
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
      std::vector<Pieces> pieces;
      for (const auto& term : terms) pieces.push_back(RandomPieces(BytesOf(term), &random));
      std::vector<float> mean(count, -1);
      Fold(pieces, absl::MakeSpan(mean));
      const std::vector<float> expected = SlowFold(terms);
      ASSERT_EQ(std::memcmp(mean.data(), expected.data(), 4 * count), 0) << ranks << " " << count;
    }
  }
}

TEST(FoldTest, Fold_UnalignedMemory_ExactlyTheDefinition) {
  const std::vector<std::vector<float>> terms = {RandomValues(500, 1), RandomValues(500, 2)};
  std::vector<std::vector<uint8_t>> memory;
  std::vector<Pieces> pieces;
  for (size_t r = 0; r < terms.size(); ++r) {
    memory.emplace_back(2003);
    std::memcpy(memory[r].data() + 1 + r, terms[r].data(), 2000);
  }
  for (size_t r = 0; r < terms.size(); ++r) pieces.push_back({{memory[r].data() + 1 + r, 2000}});
  std::vector<float> mean(500);
  Fold(pieces, absl::MakeSpan(mean));
  EXPECT_EQ(mean, SlowFold(terms));
}

TEST(FoldTest, Fold_OrderMatters_RankOrderIsUsed) {
  const std::vector<float> big = {1e8f}, one = {1.0f}, minus = {-1e8f};
  std::vector<float> mean(1);
  Fold(std::vector<Pieces>{{BytesOf(big)}, {BytesOf(minus)}, {BytesOf(one)}}, absl::MakeSpan(mean));
  EXPECT_EQ(mean[0], 1.0f * (1.0f / 3.0f));
  Fold(std::vector<Pieces>{{BytesOf(big)}, {BytesOf(one)}, {BytesOf(minus)}}, absl::MakeSpan(mean));
  EXPECT_EQ(mean[0], 0.0f);
}

TEST(FoldTest, AddScaled_PiecesThatSplitElements_SumTimesScale) {
  const std::vector<float> a = RandomValues(300, 1), b = RandomValues(300, 2);
  std::mt19937 random(3);
  std::vector<float> out(300);
  AddScaled(RandomPieces(BytesOf(a), &random), b.data(), 0.25f, absl::MakeSpan(out));
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], (a[i] + b[i]) * 0.25f) << i;
}

TEST(FoldTest, FoldInstructionSet_AnyMachine_OneOfThree) {
  const std::string name(FoldInstructionSet());
  EXPECT_TRUE(name == "avx512" || name == "avx2" || name == "baseline") << name;
}

}  // namespace
}  // namespace gradwire
