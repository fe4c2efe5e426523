// A part of a step that does not come in time: who is lost for it, given what workers say of
// themselves.
#include "tests/coordinator/membership/membership_fixture.h"

namespace gradwire {
namespace {

using ::gradwire::testing::All;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Of 3 ranks on 3 workers; a run that recovers.
class MembershipLateTest : public testing::MembershipFixture {
 protected:
  static MembershipConfig RecoveringConfig() {
    MembershipConfig config = Config();
    config.recover = true;
    return config;
  }
  MembershipLateTest() : MembershipFixture(RecoveringConfig()) { Form(); }

  void Ready(int session, uint64_t step) {
    v1::Ready ready;
    ready.set_step(step);
    ready.set_generation(1);
    membership_.OnReady(SessionId(session), ready, now_);
  }
  // `suspect_session` 0: it cannot know.
  Outcome Late(int session, int suspect_session, uint64_t step) {
    v1::Suspect suspect;
    suspect.set_incarnation(suspect_session);
    suspect.set_generation(1);
    suspect.set_step(step);
    suspect.set_late(true);
    suspect.set_cause("gradients are missing");
    return membership_.OnSuspect(SessionId(session), suspect, now_);
  }
  Outcome At(int session, const char* phase, uint64_t step, bool waits, uint64_t generation = 1) {
    v1::Heartbeat heartbeat;
    heartbeat.mutable_work()->set_phase(phase);
    heartbeat.mutable_work()->set_step(step);
    heartbeat.mutable_work()->set_waits(waits);
    heartbeat.mutable_work()->set_generation(generation);
    return membership_.OnHeartbeat(SessionId(session), heartbeat, now_);
  }
  // What comes of the suspicions that there are.
  Outcome Verdict() {
    now_ += absl::Seconds(1);
    for (int session = 1; session <= 3; ++session) {
      membership_.OnHeartbeat(SessionId(session), {}, now_);
    }
    return membership_.OnTick(now_);
  }
};

TEST_F(MembershipLateTest, OnSuspect_LateForOneThatComputes_ItIsLostAndTheOthersGoOn) {
  At(1, "wait", 0, true);
  At(2, "forward", 0, false);
  At(3, "wait", 0, true);
  EXPECT_EQ(Late(1, 2, 0).why,
            "rank 0 (10.10.1.2:1) waits in vain for rank 1 (10.10.1.2:2) in step 0: gradients are "
            "missing");
  Late(3, 2, 0);
  const Outcome outcome = Verdict();
  ASSERT_THAT(All<SendAbort>(outcome), SizeIs(1));
  EXPECT_EQ(All<SendAbort>(outcome)[0].session, SessionId(2));
  EXPECT_THAT(All<SendAbort>(outcome)[0].reason,
              HasSubstr("rank 0 waited in vain for its part of step 0: gradients are missing"));
  EXPECT_EQ(All<SendView>(outcome).size(), 2u);
}

TEST_F(MembershipLateTest, OnSuspect_LateForOneThatWaits_NobodyIsLost) {
  for (int session = 1; session <= 3; ++session) At(session, "wait", 0, true);
  Late(1, 2, 0);
  Late(3, 2, 0);
  EXPECT_THAT(Verdict().actions, IsEmpty());
}

TEST_F(MembershipLateTest, OnSuspect_NotSealedInTime_WhoIsNotReadyIsLost) {
  Ready(1, 0);
  Ready(3, 0);
  for (int session = 1; session <= 3; ++session) At(session, "wait", 0, true);
  EXPECT_EQ(Late(3, 0, 0).why,
            "rank 2 (10.10.1.2:3) waits in vain for others in step 0: gradients are missing");
  const Outcome outcome = Verdict();
  ASSERT_THAT(All<SendAbort>(outcome), SizeIs(1));
  EXPECT_EQ(All<SendAbort>(outcome)[0].session, SessionId(2));
}

// Nobody tells of its work, as in a program that has just begun.
TEST_F(MembershipLateTest, OnSuspect_OneHasNotDeclaredTheLayoutOfTheOthers_ItIsLost) {
  for (const int session : {1, 3}) {
    membership_.OnLayout(SessionId(session), testing::TestLayout(), now_);
  }
  Late(1, 0, 0);
  const Outcome outcome = Verdict();
  ASSERT_THAT(All<SendAbort>(outcome), SizeIs(1));
  EXPECT_EQ(All<SendAbort>(outcome)[0].session, SessionId(2));
}

TEST_F(MembershipLateTest, OnSuspect_OneIsStillAtWorkOfTheViewBefore_ItIsLost) {
  At(1, "wait", 0, true);
  At(2, "wait", 0, true, /*generation=*/0);
  At(3, "wait", 0, true);
  Late(1, 3, 0);
  const Outcome outcome = Verdict();
  ASSERT_THAT(All<SendAbort>(outcome), SizeIs(1));
  EXPECT_EQ(All<SendAbort>(outcome)[0].session, SessionId(2));
}

// It knows nothing of the workers' work then, until they report it again.
TEST_F(MembershipLateTest, OnSuspect_ThenTheCoordinatorStandsStill_WhoWaitsIsNotLost) {
  for (int session = 1; session <= 3; ++session) At(session, "wait", 0, true);
  Late(1, 2, 0);
  now_ += absl::Seconds(12);
  EXPECT_THAT(membership_.OnTick(now_).actions, IsEmpty());
  for (int session = 1; session <= 3; ++session) At(session, "wait", 0, true);
  EXPECT_THAT(Verdict().actions, IsEmpty());
}

}  // namespace
}  // namespace gradwire
