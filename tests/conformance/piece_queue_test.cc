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
  std::shared_ptr<Exchange> MakeExchange(int bucket) {
    Transfer transfer;
    transfer.key = {Step(0), Bucket(bucket)};
    const Grid grid(Bucket(bucket), 8 * kPieceBytes, kPieceBytes, 1);
    return std::make_shared<Exchange>(std::move(transfer), grid);
  }

  void PushAll(int bucket, size_t pieces) {
    auto exchange = MakeExchange(bucket);
    for (size_t i = 0; i < pieces; ++i) queue_.Push({exchange, i});
  }

  int PopBucket() { return queue_.Pop()->exchange->transfer.key.bucket.value(); }

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
  queue_.OnMean(first);
  EXPECT_EQ(third.get(), 2u);
}

TEST_F(PieceQueueTest, Pop_WindowFullOfLowerBuckets_HigherBucketLeaves) {
  PushAll(0, 2);
  queue_.Pop();
  queue_.Pop();
  PushAll(1, 1);
  EXPECT_EQ(PopBucket(), 1);
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
