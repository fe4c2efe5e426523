#include "worker/backends/fold/chunk_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace gradwire {
namespace {

constexpr uint64_t kPieceBytes = 1024;
constexpr uint64_t kWindow = 2 * kPieceBytes;

class ChunkQueueTest : public ::testing::Test {
 protected:
  static std::shared_ptr<FoldTransfer> MakeTransfer(int layout, int bucket) {
    const BucketSpec spec{8 * kPieceBytes, v1::DTYPE_FLOAT32};
    const Grid grid(Bucket(bucket), spec.bytes, kPieceBytes, 1);
    return std::make_shared<FoldTransfer>(Transfer({LayoutId(layout), Step(0), Bucket(bucket)},
                                                   spec, {}, absl::InfiniteFuture(), nullptr),
                                          grid);
  }

  void PushAll(int bucket, size_t pieces, int rank = 0, int layout = 0) {
    const auto transfer = MakeTransfer(layout, bucket);
    for (size_t i = 0; i < pieces; ++i) queue_.Push({transfer, i, Rank(rank), {}});
  }

  int PopBucket() { return queue_.Pop()->transfer->key.bucket.value(); }

  ChunkQueue queue_{kWindow};
};

TEST_F(ChunkQueueTest, Pop_SeveralBuckets_HighestFirst) {
  PushAll(0, 1);
  PushAll(2, 1);
  PushAll(1, 1);
  EXPECT_EQ(PopBucket(), 2);
  EXPECT_EQ(PopBucket(), 1);
}

TEST_F(ChunkQueueTest, Pop_SeveralRanksAndLayouts_HighestOfAllFirst) {
  PushAll(1, 1, /*rank=*/0);
  PushAll(2, 1, /*rank=*/1);
  PushAll(3, 1, /*rank=*/0, /*layout=*/1);
  for (const int bucket : {3, 2, 1}) EXPECT_EQ(PopBucket(), bucket);
}

TEST_F(ChunkQueueTest, Pop_WindowFull_WaitsForAMean) {
  PushAll(0, 3);
  const OutgoingChunk first = *queue_.Pop();
  queue_.Pop();
  auto third = std::async(std::launch::async, [this] { return queue_.Pop()->index; });
  EXPECT_EQ(third.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  queue_.OnMean(*first.transfer, first.index);
  EXPECT_EQ(third.get(), 2u);
}

TEST_F(ChunkQueueTest, Pop_WindowFullOfLowerBuckets_HigherBucketLeaves) {
  PushAll(0, 2);
  queue_.Pop();
  queue_.Pop();
  PushAll(1, 1);
  EXPECT_EQ(PopBucket(), 1);
}

TEST_F(ChunkQueueTest, Pop_WindowOfAnotherRankIsFull_RankLeaves) {
  PushAll(0, 3, /*rank=*/0);
  queue_.Pop();
  queue_.Pop();
  PushAll(0, 1, /*rank=*/1);
  EXPECT_EQ(queue_.Pop()->rank, Rank(1));
}

TEST_F(ChunkQueueTest, Pop_WindowOfAnotherLayoutIsFull_LayoutLeaves) {
  PushAll(0, 3, 0, /*layout=*/0);
  queue_.Pop();
  queue_.Pop();
  PushAll(0, 1, 0, /*layout=*/1);
  EXPECT_EQ(queue_.Pop()->transfer->key.layout, LayoutId(1));
}

TEST_F(ChunkQueueTest, OnMean_OfAnotherLayout_OpensNoWindowButItsOwn) {
  PushAll(1, 3, 0, /*layout=*/0);
  queue_.Pop();
  queue_.Pop();
  PushAll(0, 1, 0, /*layout=*/1);
  queue_.OnMean(*MakeTransfer(/*layout=*/1, /*bucket=*/1), 0);
  EXPECT_EQ(queue_.Pop()->transfer->key.layout, LayoutId(1));
}

// Terms of other workers' ranks are in the mean, too.
TEST_F(ChunkQueueTest, OnMean_OfPiecesThatOthersSent_OpensNoWindow) {
  PushAll(1, 3);
  queue_.Pop();
  queue_.Pop();
  PushAll(0, 1, /*rank=*/1);
  queue_.OnMean(*MakeTransfer(/*layout=*/0, /*bucket=*/2), 0);
  EXPECT_EQ(queue_.Pop()->rank, Rank(1));
}

TEST_F(ChunkQueueTest, Close_PiecesWait_TheyLeaveFirst) {
  PushAll(0, 1);
  queue_.Close();
  EXPECT_TRUE(queue_.Pop().has_value());
  EXPECT_FALSE(queue_.Pop().has_value());
}

TEST_F(ChunkQueueTest, Cancel_PiecesWait_NoneLeaves) {
  PushAll(0, 1);
  queue_.Cancel();
  EXPECT_FALSE(queue_.Pop().has_value());
}

// As a lane uses it: a thread for each rank that contributes, one that sends, one that receives
// means.
class PieceQueueThreadsTest : public ChunkQueueTest {
 protected:
  static constexpr int kRanks = 3;
  static constexpr int kBuckets = 5;
  static constexpr size_t kPieces = 8;

  PieceQueueThreadsTest() {
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      transfers_.push_back(MakeTransfer(0, bucket));
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      threads_.emplace_back([this, rank] { Contribute(rank); });
    }
  }
  ~PieceQueueThreadsTest() override {
    for (std::thread& thread : threads_) thread.join();
  }
  void Contribute(int rank) {
    for (const auto& transfer : transfers_) {
      for (size_t piece = 0; piece < kPieces; ++piece) {
        queue_.Push({transfer, piece, Rank(rank), {}});
      }
    }
  }

  std::vector<std::shared_ptr<FoldTransfer>> transfers_;
  std::vector<std::thread> threads_;
};

TEST_F(PieceQueueThreadsTest, PushPopAndMeans_AllAtOnce_EachPieceLeavesOnceForEachRank) {
  std::map<std::pair<int, size_t>, int> left;  // by bucket and piece: for how many ranks
  std::vector<std::future<void>> means;
  for (int i = 0; i < kRanks * kBuckets * static_cast<int>(kPieces); ++i) {
    const OutgoingChunk piece = *queue_.Pop();
    const int ranks = ++left[{piece.transfer->key.bucket.value(), piece.index}];
    ASSERT_LE(ranks, kRanks);
    if (ranks < kRanks) continue;  // there is no mean without the others
    means.push_back(std::async(std::launch::async,
                               [this, piece] { queue_.OnMean(*piece.transfer, piece.index); }));
  }
  EXPECT_EQ(left.size(), kBuckets * kPieces);
  EXPECT_EQ(means.size(), left.size());
  queue_.Close();
  EXPECT_FALSE(queue_.Pop().has_value());
}

TEST_F(PieceQueueThreadsTest, Cancel_WhileRanksHandIn_PopEnds) {
  auto sending = std::async(std::launch::async, [this] {
    int popped = 0;
    while (queue_.Pop().has_value()) ++popped;
    return popped;
  });
  queue_.Cancel();
  // No mean came, so no more than a window of each rank's buckets can have left.
  EXPECT_LE(sending.get(), kRanks * kBuckets * static_cast<int>(kWindow / kPieceBytes));
}

}  // namespace
}  // namespace gradwire
