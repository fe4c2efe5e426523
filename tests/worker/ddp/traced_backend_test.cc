#include <gmock/gmock.h>

#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "tests/worker/ddp/telling_exchange.h"
#include "worker/backends/backend.h"

namespace gradwire {
namespace {

using ::gradwire::testing::TellingExchange;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Connects with a TellingExchange.
class FakeBackend : public Backend {
 public:
  absl::StatusOr<std::unique_ptr<Exchange>> Connect(const View&, const Ended&,
                                                    absl::optional<Incarnation>*) override {
    auto exchange = std::make_unique<TellingExchange>();
    connected = exchange.get();
    return exchange;
  }

  TellingExchange* connected = nullptr;
};

class TracedBackendTest : public ::testing::Test {
 protected:
  TracedBackendTest() {
    auto fake = std::make_unique<FakeBackend>();
    FakeBackend* const backend = fake.get();
    traced_ =
        TraceBackend(std::move(fake), [this](const TraceSpan& span) { spans_.push_back(span); });
    exchange_ = traced_
                    ->Connect(
                        View(), [] { return absl::OkStatus(); }, nullptr)
                    .value();
    fake_ = backend->connected;
  }
  void Expect(int bucket) {
    const BucketKey key = {LayoutId(0), Step(3), Bucket(bucket)};
    exchange_->Expect(key, absl::MakeSpan(result_), absl::InfiniteFuture(),
                      [this](absl::Status status) { statuses_.push_back(status); });
    exchange_->Contribute(key, Rank(0), terms_);
  }

  const std::vector<uint8_t> terms_ = {1, 2};
  std::vector<uint8_t> result_ = {0, 0};
  std::vector<TraceSpan> spans_;
  std::vector<absl::Status> statuses_;
  std::unique_ptr<Backend> traced_;
  std::unique_ptr<Exchange> exchange_;
  TellingExchange* fake_;
};

TEST_F(TracedBackendTest, TransferUnderWay_IsNotToldYet) {
  Expect(1);
  EXPECT_THAT(spans_, IsEmpty());
  fake_->Cancel(absl::CancelledError("over"));
}

TEST_F(TracedBackendTest, TransferEnds_IsToldFromExpectToDone) {
  const absl::Time before = SteadyNow();
  Expect(1);
  const absl::Time expected = SteadyNow();
  fake_->End(1);
  ASSERT_THAT(spans_, SizeIs(1));
  EXPECT_EQ(spans_[0].lane, TraceSpan::Lane::kTransfer);
  EXPECT_EQ(spans_[0].step, Step(3));
  EXPECT_EQ(spans_[0].bucket, Bucket(1));
  EXPECT_GE(spans_[0].begin, before);
  EXPECT_LE(spans_[0].begin, expected);
  EXPECT_GE(spans_[0].end, expected);
}

TEST_F(TracedBackendTest, TransferFails_IsToldAndTheErrorPassedOn) {
  Expect(1);
  fake_->End(1, absl::UnavailableError("gone"));
  EXPECT_THAT(spans_, SizeIs(1));
  EXPECT_EQ(statuses_, std::vector<absl::Status>{absl::UnavailableError("gone")});
}

TEST_F(TracedBackendTest, Contribute_ReachesTheExchange) {
  Expect(0);
  fake_->End(0);
  EXPECT_EQ(result_, terms_);
  EXPECT_EQ(statuses_, std::vector<absl::Status>{absl::OkStatus()});
}

// Its steps are no steps of the run.
TEST_F(TracedBackendTest, TransferOfAnEvaluation_IsPassedOnAndNotTold) {
  exchange_->AddLayout(LayoutId(0), {{2, v1::DTYPE_BYTES}, {4, v1::DTYPE_FLOAT32}});
  Expect(1);
  fake_->End(1);
  EXPECT_EQ(statuses_, std::vector<absl::Status>{absl::OkStatus()});
  EXPECT_THAT(spans_, IsEmpty());
}

// A trace only watches: a run with one must not lose what a run without it has.
TEST_F(TracedBackendTest, EverythingElse_IsPassedOn) { ExpectPassesOn(*exchange_, *fake_); }

}  // namespace
}  // namespace gradwire
