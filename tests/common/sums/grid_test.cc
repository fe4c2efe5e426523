#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/sums/layout_sums.h"

namespace gradwire {
namespace {

constexpr uint64_t kChunk = 1 << 20;

std::vector<uint64_t> SharesOf(const Grid& grid, int owners) {
  std::vector<uint64_t> shares(owners);
  for (size_t i = 0; i < grid.pieces(); ++i) shares[grid.Owner(i)] += grid.Bytes(i);
  return shares;
}

TEST(GridTest, Pieces_AnySize_CoverTheBucketInOrder) {
  for (uint64_t bytes : {1u, 63u, 64u, 65u, 16384u, 65536u, 65537u, 1u << 20, 36924456u}) {
    for (int owners : {1, 2, 3, 4, 5, 16}) {
      const Grid grid(Bucket(3), bytes, kChunk, owners);
      uint64_t end = 0;
      for (size_t i = 0; i < grid.pieces(); ++i) {
        ASSERT_EQ(grid.Offset(i), end);
        ASSERT_GT(grid.Bytes(i), 0u);
        ASSERT_LE(grid.Bytes(i), kChunk);
        end += grid.Bytes(i);
      }
      ASSERT_EQ(end, bytes) << owners << " owners";
    }
  }
}

TEST(GridTest, Pieces_EmptyBucket_None) { EXPECT_EQ(Grid(Bucket(0), 0, kChunk, 4).pieces(), 0u); }

TEST(GridTest, Owner_LargeBucket_EqualShares) {
  for (int owners : {2, 3, 4, 16}) {
    const std::vector<uint64_t> shares =
        SharesOf(Grid(Bucket(1), 36924456, kChunk, owners), owners);
    const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
    EXPECT_LE(*most - *least, 64u * 16 * owners);
  }
}

TEST(GridTest, Owner_SmallBucket_OneOwnerThatTurnsWithTheBucket) {
  for (int bucket = 0; bucket < 8; ++bucket) {
    const Grid grid(Bucket(bucket), 4096, kChunk, 4);
    ASSERT_EQ(grid.pieces(), 1u);
    EXPECT_EQ(grid.Owner(0), bucket % 4);
  }
}

TEST(GridTest, NumberInShare_PiecesOfOneOwner_CountsUp) {
  const Grid grid(Bucket(1), 36924456, kChunk, 3);
  std::vector<size_t> next(3);
  for (size_t i = 0; i < grid.pieces(); ++i) {
    EXPECT_EQ(grid.NumberInShard(i), next[grid.Owner(i)]++);
  }
}

// A coded term takes at most 6 bytes for 4, and 2 for each 4096 elements.
TEST(GridTest, Bytes_CodedWithTheLargestChunks_PayloadsAreNotTooLong) {
  const uint64_t alignment = Grid::AlignmentOf(v1::DTYPE_SPARSE);
  ASSERT_GT(alignment, Grid::kPlainAlignment);
  for (const uint64_t bytes : {uint64_t{5} << 20, uint64_t{100} << 20}) {
    const Grid grid(Bucket(0), bytes, kMaxPayloadBytes, 2, alignment);
    for (size_t piece = 0; piece < grid.pieces(); ++piece) {
      EXPECT_LE(grid.Bytes(piece) / 4 * 6 + grid.Bytes(piece) / 4096 + 100, kMaxPayloadBytes);
    }
  }
  EXPECT_EQ(Grid(Bucket(0), 5 << 20, kMaxPayloadBytes, 1).Bytes(0), 5u << 19);
}

TEST(GridTest, Find_APiece_ItsIndexAndNothingElse) {
  const Grid grid(Bucket(0), 600, 256, 1);
  EXPECT_EQ(grid.Find(512, 88), 2u);
  EXPECT_FALSE(grid.Find(512, 87).has_value());
  EXPECT_FALSE(grid.Find(4, 256).has_value());
  EXPECT_FALSE(grid.Find(768, 0).has_value());
}

}  // namespace
}  // namespace gradwire
