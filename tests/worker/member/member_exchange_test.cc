#include "worker/member/member_exchange.h"

#include <gmock/gmock.h>

#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "tests/worker/ddp/telling_exchange.h"

namespace gradwire {
namespace {

using ::gradwire::testing::TellingExchange;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class MemberExchangeTest : public ::testing::Test {
 protected:
  void Expect(int bucket) {
    const BucketKey key = {LayoutId(0), Step(3), Bucket(bucket)};
    exchange_.Expect(key, absl::MakeSpan(result_), absl::InfiniteFuture(),
                     [this](absl::Status status) { statuses_.push_back(status); });
    exchange_.Contribute(key, Rank(0), terms_);
  }

  const std::vector<uint8_t> terms_ = {1, 2};
  std::vector<uint8_t> result_ = {0, 0};
  std::vector<TraceSpan> spans_;
  std::vector<absl::Status> statuses_;
  TellingExchange* const fake_ = new TellingExchange;
  MemberExchange exchange_{std::unique_ptr<Exchange>(fake_),
                           [this](const TraceSpan& span) { spans_.push_back(span); }};
};

TEST_F(MemberExchangeTest, TransferUnderWay_IsNotToldYet) {
  Expect(1);
  EXPECT_THAT(spans_, IsEmpty());
  fake_->Cancel(absl::CancelledError("over"));
}

TEST_F(MemberExchangeTest, TransferEnds_IsToldFromExpectToDone) {
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

TEST_F(MemberExchangeTest, TransferFails_IsToldAndTheErrorPassedOn) {
  Expect(1);
  fake_->End(1, absl::UnavailableError("gone"));
  EXPECT_THAT(spans_, SizeIs(1));
  EXPECT_EQ(statuses_, std::vector<absl::Status>{absl::UnavailableError("gone")});
}

TEST_F(MemberExchangeTest, Contribute_ReachesTheExchange) {
  Expect(0);
  fake_->End(0);
  EXPECT_EQ(result_, terms_);
  EXPECT_EQ(statuses_, std::vector<absl::Status>{absl::OkStatus()});
}

// Its steps are no steps of the run.
TEST_F(MemberExchangeTest, TransferOfAnEvaluation_IsPassedOnAndNotTold) {
  exchange_.AddLayout(LayoutId(0), {{2, v1::DTYPE_BYTES}, {4, v1::DTYPE_FLOAT32}});
  Expect(1);
  fake_->End(1);
  EXPECT_EQ(statuses_, std::vector<absl::Status>{absl::OkStatus()});
  EXPECT_THAT(spans_, IsEmpty());
}

// A run with a trace must not lose what a run without one has.
TEST_F(MemberExchangeTest, EverythingElse_IsPassedOn) { ExpectPassesOn(exchange_, *fake_); }

TEST_F(MemberExchangeTest, WithoutATrace_TransfersArePassedOn) {
  auto* const fake = new TellingExchange;
  MemberExchange untraced(std::unique_ptr<Exchange>(fake), nullptr);
  std::vector<absl::Status> ended;
  untraced.Expect({LayoutId(0), Step(3), Bucket(1)}, absl::MakeSpan(result_),
                  absl::InfiniteFuture(),
                  [&ended](absl::Status status) { ended.push_back(status); });
  fake->End(1, absl::UnavailableError("gone"));
  EXPECT_EQ(ended, std::vector<absl::Status>{absl::UnavailableError("gone")});
}

}  // namespace
}  // namespace gradwire
