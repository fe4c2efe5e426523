#include "worker/run/stopper.h"

#include <gtest/gtest.h>

#include <iostream>

#include "absl/time/clock.h"
#include "common/base/clock.h"

namespace gradwire {
namespace {

constexpr int kExitCode = 75;

// A computation that does not end, after a request.
void ComputeAfterRequest(Stopper* stopper) {
  stopper->Request(absl::UnavailableError("lost the coordinator"), kExitCode);
  absl::SleepFor(absl::InfiniteDuration());
}

TEST(StopperDeathTest, Guard_ComputationDoesNotEnd_IsCutAfterOnCut) {
  const auto cut = [] {
    Stopper stopper([](const absl::Status& reason, int exit_code) {
      std::cerr << "on_cut: " << reason.message() << ", " << exit_code << std::endl;
    });
    ComputeAfterRequest(&stopper);
  };
  EXPECT_EXIT(cut(), ::testing::ExitedWithCode(kExitCode), "on_cut: lost the coordinator, 75");
}

TEST(StopperDeathTest, Guard_OnCutDoesNotEndEither_IsCut) {
  const auto cut = [] {
    Stopper stopper([](const absl::Status&, int) { absl::SleepFor(absl::InfiniteDuration()); });
    ComputeAfterRequest(&stopper);
  };
  EXPECT_EXIT(cut(), ::testing::ExitedWithCode(kExitCode), "");
}

TEST(Stopper, Request_Twice_TheFirstCounts) {
  Stopper stopper;
  EXPECT_FALSE(stopper.requested());
  EXPECT_EQ(stopper.reason(), absl::OkStatus());
  stopper.Request(absl::CancelledError("signal 15"), 143);
  stopper.Request(absl::UnavailableError("lost the coordinator"), kExitCode);
  EXPECT_TRUE(stopper.requested());
  EXPECT_EQ(stopper.reason(), absl::CancelledError("signal 15"));
  EXPECT_EQ(stopper.exit_code(), 143);
}

TEST(Stopper, EndsInTime_OnCutIsNotCalled) {
  bool called = false;
  {
    Stopper stopper([&called](const absl::Status&, int) { called = true; });
    stopper.Request(absl::CancelledError("stopped"), kExitCode);
  }
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace gradwire
