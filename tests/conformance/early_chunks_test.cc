#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "worker/backends/hops/neighbor_stream.h"

namespace gradwire {
namespace {

using Key = EarlyChunks::Key;
using ::testing::HasSubstr;

// What rank 2 receives first of a bucket.
Key KeyOf(uint64_t step, int bucket) {
  return {{LayoutId(0), Step(step), Bucket(bucket)}, Rank(2), 0};
}

bool operator==(const Key& a, const Key& b) { return !(a < b) && !(b < a); }

// Of `bytes` bytes; `offset` tells chunks apart.
Chunk MakeChunk(uint64_t offset, size_t bytes) {
  Chunk chunk;
  chunk.header.offset = offset;
  const auto memory = std::make_shared<std::vector<uint8_t>>(bytes);
  chunk.payload = {{memory->data(), bytes}};
  chunk.owner = memory;
  return chunk;
}

class EarlyChunksTest : public ::testing::Test {
 protected:
  void Keep(const Key& key, uint64_t offset) {
    ASSERT_TRUE(early_.Keep(key, MakeChunk(offset, 4), 100).ok());
  }
  // The offset of what is next of `ready`, or -1.
  int64_t Next(const Key& ready) {
    const auto next = early_.Next([&](const Key& key, const Chunk&) { return key == ready; });
    return next.has_value() ? static_cast<int64_t>(next->second.header.offset) : -1;
  }
  EarlyChunks early_;
};

TEST_F(EarlyChunksTest, Next_BucketNotHandedIn_IsNone) {
  Keep(KeyOf(1, 0), 0);
  EXPECT_EQ(Next(KeyOf(1, 1)), -1);
}

TEST_F(EarlyChunksTest, Next_OtherRankIsReady_IsNone) {
  Keep(KeyOf(1, 0), 0);
  EXPECT_EQ(Next({KeyOf(1, 0).bucket, Rank(1), 0}), -1);
}

TEST_F(EarlyChunksTest, Next_HopIsNotReady_AnotherOneOfTheBucketIsGiven) {
  const Key second{KeyOf(1, 0).bucket, Rank(2), 1};
  Keep(KeyOf(1, 0), 0);
  Keep(second, 8);
  EXPECT_EQ(Next(second), 8);
}

TEST_F(EarlyChunksTest, Next_ChunkIsNotReady_IsNoneUntilItIs) {
  Keep(KeyOf(1, 0), 8);
  const auto is_first = [](const Key&, const Chunk& chunk) { return chunk.header.offset == 0; };
  EXPECT_FALSE(early_.Next(is_first).has_value());
  EXPECT_EQ(Next(KeyOf(1, 0)), 8);
}

TEST_F(EarlyChunksTest, Next_SeveralChunks_InTheOrderOfTheirComing) {
  Keep(KeyOf(1, 0), 8);
  Keep(KeyOf(1, 0), 4);
  EXPECT_EQ(Next(KeyOf(1, 0)), 8);
  EXPECT_EQ(Next(KeyOf(1, 0)), 4);
  EXPECT_EQ(Next(KeyOf(1, 0)), -1);
}

TEST_F(EarlyChunksTest, Holds_LastChunkIsBeingTaken_StillHeld) {
  Keep(KeyOf(1, 0), 0);
  Next(KeyOf(1, 0));
  EXPECT_TRUE(early_.Holds(KeyOf(1, 0)));
  Next(KeyOf(1, 0));
  EXPECT_FALSE(early_.Holds(KeyOf(1, 0)));
}

TEST_F(EarlyChunksTest, Bytes_OfAllThatCameEvenIfTaken) {
  EXPECT_EQ(early_.Bytes(KeyOf(1, 0)), 0u);
  Keep(KeyOf(1, 0), 0);
  Next(KeyOf(1, 0));
  Keep(KeyOf(1, 0), 4);
  EXPECT_EQ(early_.Bytes(KeyOf(1, 0)), 8u);
}

TEST_F(EarlyChunksTest, Keep_MoreThanTheMost_IsRefused) {
  ASSERT_TRUE(early_.Keep(KeyOf(1, 0), MakeChunk(0, 6), 10).ok());
  const absl::Status status = early_.Keep(KeyOf(1, 0), MakeChunk(6, 5), 10);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("got 11 bytes of this hop, expected at most 10"));
  EXPECT_EQ(early_.Bytes(KeyOf(1, 0)), 6u);
}

TEST_F(EarlyChunksTest, FirstStep_IsTheLowest) {
  EXPECT_EQ(early_.FirstStep(LayoutId(0)), absl::nullopt);
  Keep(KeyOf(7, 0), 0);
  Keep(KeyOf(6, 3), 0);
  EXPECT_EQ(early_.FirstStep(LayoutId(0)), Step(6));
  EXPECT_EQ(early_.FirstStep(LayoutId(1)), absl::nullopt);
}

TEST_F(EarlyChunksTest, FirstStep_LastChunkWasTaken_IsNone) {
  Keep(KeyOf(6, 0), 0);
  Next(KeyOf(6, 0));
  EXPECT_EQ(early_.FirstStep(LayoutId(0)), absl::nullopt);
}

TEST_F(EarlyChunksTest, Clear_HoldsNothing) {
  Keep(KeyOf(1, 0), 0);
  early_.Clear();
  EXPECT_FALSE(early_.Holds(KeyOf(1, 0)));
}

}  // namespace
}  // namespace gradwire
