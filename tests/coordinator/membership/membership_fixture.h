#ifndef GRADWIRE_TESTS_COORDINATOR_MEMBERSHIP_MEMBERSHIP_FIXTURE_H_
#define GRADWIRE_TESTS_COORDINATOR_MEMBERSHIP_MEMBERSHIP_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coordinator/membership/membership.h"
#include "tests/coordinator/membership/outcome.h"
#include "tests/coordinator/membership/test_hello.h"

namespace gradwire::testing {

// The status with which the one session that the outcome closes ends.
inline absl::Status Refusal(const Outcome& outcome) {
  EXPECT_EQ(outcome.actions.size(), 1);
  return All<CloseSession>(outcome).at(0).status;
}

// A run of 3; session and incarnation of a worker are 1 more than its rank.
class MembershipFixture : public ::testing::Test {
 protected:
  static MembershipConfig Config() {
    MembershipConfig config;
    config.world_size = 3;
    return config;
  }
  explicit MembershipFixture(const MembershipConfig& config = Config())
      : membership_(config, now_) {}

  Outcome Hello(int session, const std::vector<int>& ranks = {}) {
    return membership_.OnHello(SessionId(session), TestHello(session, ranks), now_);
  }
  void Form() {
    for (int session = 1; session <= 3; ++session) Hello(session, {session - 1});
  }
  Outcome StepsDone(int session, uint64_t steps) {
    v1::StepDone done;
    done.set_step(steps - 1);
    done.set_rank(session - 1);
    done.set_loss(2.5);
    return membership_.OnStepDone(SessionId(session), done, now_);
  }
  Outcome Leave(int session, bool finished, absl::string_view reason) {
    v1::Leave leave;
    leave.set_finished(finished);
    leave.set_reason(std::string(reason));
    return membership_.OnLeave(SessionId(session), leave, now_);
  }
  Outcome Suspect(int session, int rank) {
    v1::Suspect suspect;
    suspect.set_incarnation(rank + 1);
    suspect.set_step(7);
    suspect.set_cause("connection reset");
    return membership_.OnSuspect(SessionId(session), suspect, now_);
  }
  Outcome Broke(int session) {
    return membership_.OnStreamClosed(SessionId(session), "its session stream broke", now_);
  }
  // Ticks every 0.1 s until something happens, at most for `duration`.
  Outcome Pass(absl::Duration duration, std::vector<int> beating = {}) {
    for (const absl::Time end = now_ + duration; now_ < end;) {
      now_ += absl::Milliseconds(100);
      for (int session : beating) membership_.OnHeartbeat(SessionId(session), {}, now_);
      Outcome outcome = membership_.OnTick(now_);
      if (!outcome.actions.empty()) return outcome;
    }
    return {};
  }

  absl::Time now_ = absl::FromUnixSeconds(1000);
  Membership membership_;
};

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_COORDINATOR_MEMBERSHIP_MEMBERSHIP_FIXTURE_H_
