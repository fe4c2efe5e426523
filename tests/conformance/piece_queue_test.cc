#include "worker/backends/fold/piece_queue.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>

namespace gradwire {
namespace {

constexpr uint64_t kPieceBytes = 1024;
constexpr uint64_t kWindow = 2 * kPieceBytes;

class PieceQueueTest : public testing::Test {
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

  PieceQueue queue_{kWindow};
};

TEST_F(PieceQueueTest, Pop_SeveralBuckets_HighestFirst) {
  PushAll(0, 1);
  PushAll(2, 1);
  PushAll(1, 1);
  EXPECT_EQ(PopBucket(), 2);
  EXPECT_EQ(PopBucket(), 1);
}

TEST_F(PieceQueueTest, Pop_WindowFull_WaitsForAMean) {
  PushAll(0, 3);
  const Piece first = *queue_.Pop();
  queue_.Pop();
  auto third = std::async(std::launch::async, [this] { return queue_.Pop()->index; });
  queue_.OnMean(*first.transfer, first.index);
  EXPECT_EQ(third.get(), 2u);
}

TEST_F(PieceQueueTest, Pop_WindowFullOfLowerBuckets_HigherBucketLeaves) {
  PushAll(0, 2);
  queue_.Pop();
  queue_.Pop();
  PushAll(1, 1);
  EXPECT_EQ(PopBucket(), 1);
}

TEST_F(PieceQueueTest, Pop_WindowOfAnotherRankIsFull_RankLeaves) {
  PushAll(0, 3, /*rank=*/0);
  queue_.Pop();
  queue_.Pop();
  PushAll(0, 1, /*rank=*/1);
  EXPECT_EQ(queue_.Pop()->rank, Rank(1));
}

TEST_F(PieceQueueTest, Pop_WindowOfAnotherLayoutIsFull_LayoutLeaves) {
  PushAll(0, 3, 0, /*layout=*/0);
  queue_.Pop();
  queue_.Pop();
  PushAll(0, 1, 0, /*layout=*/1);
  EXPECT_EQ(queue_.Pop()->transfer->key.layout, LayoutId(1));
}

TEST_F(PieceQueueTest, Close_PiecesWait_TheyLeaveFirst) {
  PushAll(0, 1);
  queue_.Close();
  EXPECT_TRUE(queue_.Pop().has_value());
  EXPECT_FALSE(queue_.Pop().has_value());
}

TEST_F(PieceQueueTest, Cancel_PiecesWait_NoneLeaves) {
  PushAll(0, 1);
  queue_.Cancel();
  EXPECT_FALSE(queue_.Pop().has_value());
}

}  // namespace
}  // namespace gradwire
