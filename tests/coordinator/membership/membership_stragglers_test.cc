#include "tests/coordinator/membership/membership_fixture.h"

namespace gradwire {
namespace {

using ::gradwire::testing::All;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class MembershipStragglersTest : public testing::MembershipFixture {
 protected:
  static MembershipConfig RecoveringConfig() {
    MembershipConfig config = Config();
    config.recover = true;
    return config;
  }
  MembershipStragglersTest() : MembershipFixture(RecoveringConfig()) {
    Form();
    for (int session = 1; session <= 3; ++session) {
      v1::StepDone done;
      done.set_rank(session - 1);
      done.set_iteration_seconds(0.5);
      membership_.OnStepDone(SessionId(session), done, now_);
    }
  }
  void At(int session, const v1::Work& work) {
    v1::Heartbeat heartbeat;
    *heartbeat.mutable_work() = work;
    membership_.OnHeartbeat(SessionId(session), heartbeat, now_);
  }
  void Waits(int session, double seconds = 1) {
    v1::Work work;
    work.set_step(1);
    work.set_phase("wait");
    work.set_waits(true);
    work.set_bucket(3);
    work.set_seconds(seconds);
    At(session, work);
  }
  void Computes(int session) {
    v1::Work work;
    work.set_step(1);
    work.set_phase("backward");
    work.set_seconds(1.5);
    At(session, work);
  }
  // What is told within `duration`, ticking ten times a second.
  std::vector<TellStraggler> Within(absl::Duration duration) {
    std::vector<TellStraggler> told;
    for (const absl::Time end = now_ + duration; now_ < end;) {
      now_ += absl::Milliseconds(100);
      const Outcome outcome = membership_.OnTick(now_);
      for (const TellStraggler& tell : All<TellStraggler>(outcome)) told.push_back(tell);
    }
    return told;
  }
};

TEST_F(MembershipStragglersTest, OthersWait_ItIsNamedOnceWithWhatIsKnown) {
  Waits(1);
  Waits(2);
  Computes(3);
  EXPECT_THAT(Within(absl::Milliseconds(1000)), IsEmpty());
  const std::vector<TellStraggler> told = Within(absl::Seconds(2));
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_THAT(told[0].ranks, ElementsAre(Rank(2)));
  EXPECT_EQ(told[0].step, Step(1));
  EXPECT_EQ(
      told[0].what,
      "rank 2 (10.10.1.2:3) holds up step 1: rank 0 has waited for 2.1 s, for bucket 3; rank 2 "
      "has been in backward of step 1 for 2.6 s (last report 1.1 s ago)");
}

TEST_F(MembershipStragglersTest, NobodyTellsOfWork_NobodyIsNamed) {
  EXPECT_THAT(Within(absl::Seconds(9)), IsEmpty());
}

TEST_F(MembershipStragglersTest, CoordinatorWasPaused_NobodyIsNamed) {
  Waits(1);
  Computes(2);
  now_ += absl::Seconds(5);
  EXPECT_THAT(Within(absl::Seconds(1)), IsEmpty());
}

// A worker still says what it began in the previous view.
TEST_F(MembershipStragglersTest, WaitBeganBeforeALoss_CountsFromTheNextView) {
  Broke(3);
  EXPECT_THAT(Within(absl::Seconds(1)), IsEmpty());
  Waits(1, 60);
  Computes(2);
  EXPECT_THAT(Within(absl::Milliseconds(900)), IsEmpty());
  const std::vector<TellStraggler> told = Within(absl::Milliseconds(300));
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_THAT(told[0].ranks, ElementsAre(Rank(1)));
}

// Two workers with two ranks each.
TEST(MembershipStragglers, WorkersWithSeveralRanks_AreNamedByAllInThePlural) {
  MembershipConfig config;
  config.world_size = 4;
  config.workers = 2;
  absl::Time now = absl::FromUnixSeconds(1000);
  Membership membership(config, now);
  for (const int session : {1, 2}) {
    membership.OnHello(SessionId(session), testing::TestHello(session), now);
  }
  v1::StepDone done;
  done.set_iteration_seconds(0.5);
  membership.OnStepDone(SessionId(1), done, now);
  for (const int session : {1, 2}) {
    v1::Heartbeat heartbeat;
    heartbeat.mutable_work()->set_step(1);
    heartbeat.mutable_work()->set_phase(session == 1 ? "wait" : "backward");
    heartbeat.mutable_work()->set_waits(session == 1);
    heartbeat.mutable_work()->set_seconds(session == 1 ? 4 : 5);
    membership.OnHeartbeat(SessionId(session), heartbeat, now);
  }
  now += absl::Milliseconds(100);
  const std::vector<TellStraggler> told = All<TellStraggler>(membership.OnTick(now));
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_THAT(told[0].ranks, ElementsAre(Rank(2), Rank(3)));
  EXPECT_EQ(told[0].what,
            "ranks 2, 3 (10.10.1.2:2) hold up step 1: ranks 0, 1 have waited for 4.1 s; ranks 2, 3 "
            "have been in backward of step 1 for 5.1 s (last report 0.1 s ago)");
}

TEST_F(MembershipStragglersTest, NamesOfPhases_AreShortened) {
  Waits(1);
  v1::Work work;
  work.set_step(1);
  work.set_phase(std::string(10000, 'x'));
  work.set_seconds(-5);
  At(2, work);
  const std::vector<TellStraggler> told = Within(absl::Seconds(3));
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_LT(told[0].what.size(), 300u);
}

}  // namespace
}  // namespace gradwire
