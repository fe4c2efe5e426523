#include "common/fold/blocks.h"

#include <gtest/gtest.h>

#include <vector>

namespace gradwire {
namespace {

BucketSpec Floats(uint64_t elements) { return {4 * elements, v1::DTYPE_FLOAT32}; }

uint64_t BlockOf(uint64_t elements, int world_size) {
  return FoldBlocks({Floats(elements)}, world_size).block_elements();
}

TEST(FoldBlocks, BlockElements_PowerOfTwoThatGivesEachRankEight) {
  EXPECT_EQ(BlockOf(9231114, 4), 16384u);  // VGG-11: more than 8
  EXPECT_EQ(BlockOf(8 * 4 * 16384, 4), 16384u);
  EXPECT_EQ(BlockOf(8 * 4 * 16384 - 1, 4), 8192u);
  EXPECT_EQ(BlockOf(8 * 4 * 8192 - 1, 4), 4096u);
  EXPECT_EQ(BlockOf(0, 4), 4096u);
  EXPECT_EQ(BlockOf(262144, 16), 4096u);  // 1 MiB: 64 blocks, so all links are in use
}

// The first rank of each element of the flat gradient, as the ranges of all buckets say.
std::vector<int> FirstRanks(const std::vector<BucketSpec>& buckets, int world_size) {
  const FoldBlocks blocks(buckets, world_size);
  std::vector<int> ranks;
  for (size_t b = 0; b < buckets.size(); ++b) {
    if (IsBroadcast(buckets[b])) continue;
    uint64_t end = 0;
    for (const FoldRange& range : blocks.Cut(Bucket(static_cast<int>(b)), 0, buckets[b].bytes)) {
      EXPECT_EQ(range.offset, end);
      end += range.bytes;
      ranks.insert(ranks.end(), range.bytes / ElementBytes(buckets[b].dtype), range.first_rank);
    }
    EXPECT_EQ(end, buckets[b].bytes);
  }
  return ranks;
}

TEST(FoldBlocks, Cut_EachElement_FirstRankIsItsBlockModuloW) {
  const std::vector<int> ranks = FirstRanks({Floats(50001)}, 3);
  ASSERT_EQ(ranks.size(), 50001u);
  for (size_t i = 0; i < ranks.size(); ++i) ASSERT_EQ(ranks[i], (i / 4096) % 3) << i;
}

TEST(FoldBlocks, Cut_AnyBuckets_SameFirstRanksAsOne) {
  const std::vector<int> one = FirstRanks({Floats(100000)}, 4);
  EXPECT_EQ(FirstRanks({Floats(1), Floats(4095), Floats(10000), Floats(85904)}, 4), one);
  // Buckets of bytes are not part of the flat gradient.
  EXPECT_EQ(FirstRanks({Floats(30000), {777, v1::DTYPE_BYTES}, Floats(70000)}, 4), one);
}

TEST(FoldBlocks, Cut_Halves_SameFirstRanksAsFloats) {
  EXPECT_EQ(FirstRanks({{2 * 30000, v1::DTYPE_BFLOAT16}, {2 * 70000, v1::DTYPE_BFLOAT16}}, 4),
            FirstRanks({Floats(30000), Floats(70000)}, 4));
}

TEST(FoldBlocks, Cut_PartOfABucket_ThatPartOfTheWhole) {
  const FoldBlocks blocks({Floats(100), Floats(20000)}, 3);
  const std::vector<FoldRange> part = blocks.Cut(Bucket(1), 4 * 3000, 4 * 6000);
  ASSERT_EQ(part.size(), 3u);  // the flat elements 3100, 4096 and 8192 on, to 9100
  EXPECT_EQ(part[0].offset, 4u * 3000);
  EXPECT_EQ(part[0].bytes, 4u * 996);
  EXPECT_EQ(part[1].first_rank, 1);
  EXPECT_EQ(part[1].bytes, 4u * 4096);
  EXPECT_EQ(part[2].first_rank, 2);
  EXPECT_EQ(part[2].bytes, 4u * 908);
}

}  // namespace
}  // namespace gradwire
