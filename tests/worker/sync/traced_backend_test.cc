#include "worker/backends/traced_backend.h"

#include <gmock/gmock.h>

#include <memory>
#include <vector>

#include "tests/worker/sync/fake_backend.h"

namespace gradwire {
namespace {

using ::gradwire::testing::FakeBackend;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class TracedBackendTest : public ::testing::Test {
 protected:
  TracedBackendTest() {
    auto fake = std::make_unique<FakeBackend>();
    fake_ = fake.get();
    traced_ =
        TraceBackend(std::move(fake), [this](const TraceSpan& span) { spans_.push_back(span); });
  }
  void Broadcast(int bucket) {
    traced_->BroadcastAsync({Step(3), Bucket(bucket)}, absl::MakeSpan(bytes_),
                            absl::InfiniteFuture(),
                            [this](absl::Status status) { statuses_.push_back(status); });
  }

  std::vector<uint8_t> bytes_ = {1, 2};
  std::vector<TraceSpan> spans_;
  std::vector<absl::Status> statuses_;
  FakeBackend* fake_;
  std::unique_ptr<Backend> traced_;
};

TEST_F(TracedBackendTest, TransferUnderWay_IsNotToldYet) {
  Broadcast(1);
  EXPECT_THAT(spans_, IsEmpty());
}

TEST_F(TracedBackendTest, TransferEnds_IsToldFromHandInToDone) {
  const absl::Time before = absl::Now();
  Broadcast(1);
  const absl::Time handed_in = absl::Now();
  fake_->End(1);
  ASSERT_THAT(spans_, SizeIs(1));
  EXPECT_EQ(spans_[0].lane, TraceSpan::Lane::kTransfer);
  EXPECT_EQ(spans_[0].step, Step(3));
  EXPECT_EQ(spans_[0].bucket, Bucket(1));
  EXPECT_GE(spans_[0].begin, before);
  EXPECT_LE(spans_[0].begin, handed_in);
  EXPECT_GE(spans_[0].end, handed_in);
}

TEST_F(TracedBackendTest, TransferFails_IsToldAndTheErrorPassedOn) {
  Broadcast(1);
  fake_->End(1, absl::UnavailableError("gone"));
  EXPECT_THAT(spans_, SizeIs(1));
  EXPECT_EQ(statuses_, std::vector<absl::Status>{absl::UnavailableError("gone")});
}

TEST_F(TracedBackendTest, AllReduce_AveragesAsBefore) {
  const std::vector<float> terms = {1, 2, 3};
  std::vector<float> mean(3);
  traced_->AllReduceAsync({Step(0), Bucket(0)}, terms, absl::MakeSpan(mean), absl::InfiniteFuture(),
                          [](absl::Status) {});
  fake_->End(0);
  EXPECT_EQ(mean, terms);
  EXPECT_THAT(spans_, SizeIs(1));
}

}  // namespace
}  // namespace gradwire
