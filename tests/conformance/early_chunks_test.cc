#include "worker/backends/ring/early_chunks.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

namespace gradwire {
namespace {

using Key = EarlyChunks::Key;
using ::testing::HasSubstr;

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
    const auto chunk = early_.Next([&](const Key& key) { return key == ready; });
    return chunk.has_value() ? static_cast<int64_t>(chunk->header.offset) : -1;
  }
  EarlyChunks early_;
};

TEST_F(EarlyChunksTest, Next_BucketNotHandedIn_IsNone) {
  Keep({1, 0}, 0);
  EXPECT_EQ(Next({1, 1}), -1);
}

TEST_F(EarlyChunksTest, Next_SeveralChunks_InTheOrderOfTheirComing) {
  Keep({1, 0}, 8);
  Keep({1, 0}, 4);
  EXPECT_EQ(Next({1, 0}), 8);
  EXPECT_EQ(Next({1, 0}), 4);
  EXPECT_EQ(Next({1, 0}), -1);
}

TEST_F(EarlyChunksTest, Holds_LastChunkIsBeingTaken_StillHeld) {
  Keep({1, 0}, 0);
  Next({1, 0});
  EXPECT_TRUE(early_.Holds({1, 0}));
  Next({1, 0});
  EXPECT_FALSE(early_.Holds({1, 0}));
}

TEST_F(EarlyChunksTest, Bytes_OfAllThatCameEvenIfTaken) {
  EXPECT_EQ(early_.Bytes({1, 0}), 0u);
  Keep({1, 0}, 0);
  Next({1, 0});
  Keep({1, 0}, 4);
  EXPECT_EQ(early_.Bytes({1, 0}), 8u);
}

TEST_F(EarlyChunksTest, Keep_MoreThanTheMost_IsRefused) {
  ASSERT_TRUE(early_.Keep({1, 0}, MakeChunk(0, 6), 10).ok());
  const absl::Status status = early_.Keep({1, 0}, MakeChunk(6, 5), 10);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("got 11 bytes of this bucket, expected at most 10"));
  EXPECT_EQ(early_.Bytes({1, 0}), 6u);
}

TEST_F(EarlyChunksTest, FirstStep_IsTheLowest) {
  EXPECT_EQ(early_.FirstStep(), absl::nullopt);
  Keep({7, 0}, 0);
  Keep({6, 3}, 0);
  EXPECT_EQ(early_.FirstStep(), 6u);
}

TEST_F(EarlyChunksTest, Clear_HoldsNothing) {
  Keep({1, 0}, 0);
  early_.Clear();
  EXPECT_FALSE(early_.Holds({1, 0}));
}

}  // namespace
}  // namespace gradwire
