#include "common/wire/xxh3.h"
#include "tests/coordinator/membership/membership_fixture.h"

namespace gradwire {
namespace {

using ::gradwire::testing::All;
using ::gradwire::testing::TestHello;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A run of 3 ranks whose sealed steps are recorded: worker 1 carries ranks 0 and 2, worker 2
// rank 1.
class MembershipRecordsTest : public ::testing::Test {
 protected:
  static MembershipConfig Recording() {
    MembershipConfig config;
    config.world_size = 3;
    config.workers = 2;
    config.recover = true;
    config.records = true;
    return config;
  }
  Outcome Begin(const MembershipConfig& config = Recording()) {
    membership_.emplace(config, now_);
    membership_->OnHello(SessionId(1), TestHello(1, {0, 2}), now_);
    return membership_->OnHello(SessionId(2), TestHello(2, {1}), now_);
  }
  static v1::Ready ReadyFor(uint64_t step, const std::vector<uint32_t>& ranks) {
    v1::Ready ready;
    ready.set_step(step);
    ready.set_generation(1);
    for (const uint32_t rank : ranks) {
      v1::RankSamples& samples = *ready.add_samples();
      samples.set_rank(rank);
      samples.set_digest(100 + rank);
    }
    return ready;
  }
  Outcome Ready(int session, const v1::Ready& ready) {
    return membership_->OnReady(SessionId(session), ready, now_);
  }

  const absl::Time now_ = absl::FromUnixSeconds(1000);
  std::optional<Membership> membership_;
};

TEST_F(MembershipRecordsTest, FirstView_AsksForSamples) {
  const Outcome outcome = Begin();
  const FormRun run = All<FormRun>(outcome).at(0);
  EXPECT_TRUE(run.view.records);
  EXPECT_TRUE(run.view.seals);
  EXPECT_EQ(run.cannot_seal, "");
}

TEST_F(MembershipRecordsTest, FirstView_NotRecording_DoesNotAskForSamples) {
  MembershipConfig config = Recording();
  config.records = false;
  EXPECT_FALSE(All<FormRun>(Begin(config)).at(0).view.records);
}

TEST_F(MembershipRecordsTest, FirstView_OneWorker_Seals) {
  MembershipConfig config = Recording();
  config.workers = 1;
  membership_.emplace(config, now_);
  const Outcome outcome = membership_->OnHello(SessionId(1), TestHello(1, {0, 1, 2}), now_);
  EXPECT_TRUE(All<FormRun>(outcome).at(0).view.seals);
}

TEST_F(MembershipRecordsTest, FirstView_WorkerCannotRecover_SaysWhyNothingIsSealed) {
  membership_.emplace(Recording(), now_);
  v1::Hello hello = TestHello(1, {0, 2});
  hello.set_cannot_recover("gloo has no second view");
  membership_->OnHello(SessionId(1), hello, now_);
  const Outcome outcome = membership_->OnHello(SessionId(2), TestHello(2, {1}), now_);
  EXPECT_FALSE(All<FormRun>(outcome).at(0).view.seals);
  EXPECT_EQ(All<FormRun>(outcome).at(0).cannot_seal, "gloo has no second view");
}

TEST_F(MembershipRecordsTest, Loss_OnLossStop_EndsTheRunThoughStepsAreSealed) {
  MembershipConfig config = Recording();
  config.recover = false;
  EXPECT_TRUE(All<FormRun>(Begin(config)).at(0).view.seals);
  Ready(1, ReadyFor(0, {0, 2}));
  Ready(2, ReadyFor(0, {1}));
  const Outcome outcome = membership_->OnStreamClosed(SessionId(2), "it broke", now_);
  EXPECT_THAT(All<EndRun>(outcome), SizeIs(1));
}

TEST_F(MembershipRecordsTest, Ready_OfAll_RecordsSamplesByRankBeforeAnyWorkerHears) {
  Begin();
  Ready(2, ReadyFor(0, {1}));
  const Outcome outcome = Ready(1, ReadyFor(0, {0, 2}));
  ASSERT_THAT(outcome.actions, SizeIs(3));
  ASSERT_TRUE(std::holds_alternative<RecordStep>(outcome.actions[0]));
  const v1::SealedRecord& record = std::get<RecordStep>(outcome.actions[0]).record;
  EXPECT_EQ(record.step(), 0);
  EXPECT_EQ(record.generation(), 1);
  ASSERT_EQ(record.samples_size(), 3);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(record.samples(rank).rank(), rank);
    EXPECT_EQ(record.samples(rank).digest(), 100 + rank);
  }
  EXPECT_FALSE(record.has_digest());
}

TEST_F(MembershipRecordsTest, Ready_WithDigests_RecordsOneOfAllTensors) {
  Begin();
  v1::Ready first = ReadyFor(0, {0, 2});
  v1::Ready second = ReadyFor(0, {1});
  for (v1::Ready* ready : {&first, &second}) {
    for (const uint32_t tensor : {3, 5}) {
      v1::TensorDigest& digest = *ready->add_digests();
      digest.set_tensor(tensor);
      digest.set_digest(70 + tensor);
    }
  }
  Ready(1, first);
  const uint64_t words[] = {3, 73, 5, 75};
  EXPECT_EQ(All<RecordStep>(Ready(2, second)).at(0).record.digest(),
            Xxh3InUse().whole(words, sizeof(words)));
}

// As with --check-replicas, after some steps only.
TEST_F(MembershipRecordsTest, Ready_NextStepWithoutDigests_DoesNotRepeatTheOldOnes) {
  Begin();
  v1::Ready first = ReadyFor(0, {0, 2});
  v1::Ready second = ReadyFor(0, {1});
  for (v1::Ready* ready : {&first, &second}) ready->add_digests()->set_digest(7);
  Ready(1, first);
  EXPECT_TRUE(All<RecordStep>(Ready(2, second)).at(0).record.has_digest());
  Ready(1, ReadyFor(1, {0, 2}));
  EXPECT_FALSE(All<RecordStep>(Ready(2, ReadyFor(1, {1}))).at(0).record.has_digest());
}

TEST_F(MembershipRecordsTest, Ready_NextStepWithoutSamples_DoesNotRepeatTheOldOnes) {
  Begin();
  Ready(1, ReadyFor(0, {0, 2}));
  Ready(2, ReadyFor(0, {1}));
  Ready(1, ReadyFor(1, {}));
  EXPECT_EQ(All<RecordStep>(Ready(2, ReadyFor(1, {}))).at(0).record.samples_size(), 0);
}

TEST_F(MembershipRecordsTest, Ready_LastOfAll_RecordsNoStep) {
  Begin();
  v1::Ready last = ReadyFor(0, {});
  last.set_last(true);
  Ready(1, last);
  const Outcome outcome = Ready(2, last);
  EXPECT_THAT(All<SendSealed>(outcome), SizeIs(2));
  EXPECT_THAT(All<RecordStep>(outcome), IsEmpty());
}

TEST_F(MembershipRecordsTest, Ready_SamplesOfAnotherRank_IsALoss) {
  Begin();
  const Outcome outcome = Ready(1, ReadyFor(0, {0, 1}));
  EXPECT_THAT(std::string(All<CloseSession>(outcome).at(0).status.message()),
              HasSubstr("got Ready with samples of ranks 0, 1, expected ranks 0, 2"));
  EXPECT_THAT(All<TellLoss>(outcome), SizeIs(1));
}

}  // namespace
}  // namespace gradwire
