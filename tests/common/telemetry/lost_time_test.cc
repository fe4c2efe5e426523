#include <gtest/gtest.h>

#include <limits>

#include "common/telemetry/phases.h"

namespace gradwire {
namespace {

constexpr LostTime kLost{absl::Milliseconds(321), absl::Milliseconds(41), absl::Milliseconds(50)};

TEST(LostTime, Describe_TotalAndParts) {
  EXPECT_EQ(Describe(kLost), "0.412 s: computing 0.321, waiting 0.041, connecting 0.050");
}

TEST(LostTime, Add_EachPartByItself) {
  LostTime sum = kLost;
  sum += {absl::Milliseconds(1), absl::Milliseconds(2), absl::Milliseconds(4)};
  EXPECT_EQ(sum.computing, absl::Milliseconds(322));
  EXPECT_EQ(sum.waiting, absl::Milliseconds(43));
  EXPECT_EQ(sum.connecting, absl::Milliseconds(54));
}

TEST(LostTime, FromProto_OfToProto_TheSame) {
  const LostTime lost = FromProto(ToProto(kLost));
  EXPECT_EQ(lost.computing, kLost.computing);
  EXPECT_EQ(lost.waiting, kLost.waiting);
  EXPECT_EQ(lost.connecting, kLost.connecting);
}

TEST(LostTime, FromProto_NegativeOrNotFinite_Zero) {
  v1::LostTime message;
  message.set_computing(-1);
  message.set_waiting(std::numeric_limits<double>::quiet_NaN());
  message.set_connecting(std::numeric_limits<double>::infinity());
  EXPECT_EQ(FromProto(message).total(), absl::ZeroDuration());
}

}  // namespace
}  // namespace gradwire
