#include "coordinator/run/hosted_coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/session/connect.h"
#include "tests/support/sockets.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

TEST(HostedCoordinator, NobodyListens_ServesThere) {
  const std::string address = testing::UnusedAddress();
  const auto hosted = HostedCoordinator::StartUnlessServed({address, 2, "off"}, {});
  ASSERT_TRUE(hosted.ok()) << hosted.status();
  ASSERT_NE(*hosted, nullptr);
  EXPECT_EQ((*hosted)->address(), address);
  EXPECT_EQ((*hosted)->metrics_address(), "");
  EXPECT_EQ(Probe(address).value(), AddressUse::kServed);
}

TEST(HostedCoordinator, SomebodyListens_Null) {
  const testing::BusyPort port;
  EXPECT_EQ(HostedCoordinator::StartUnlessServed({port.address(), 2, "off"}, {}).value(), nullptr);
}

TEST(HostedCoordinator, AddressOfAnotherHost_Null) {
  EXPECT_EQ(HostedCoordinator::StartUnlessServed({"no-such-host.invalid:1", 2, "off"}, {}).value(),
            nullptr);
}

TEST(HostedCoordinator, UsualMetricsTwice_TheSecondHasAnotherPort) {
  const auto first = HostedCoordinator::StartUnlessServed({"127.0.0.1:0", 1, ""}, {});
  const auto second = HostedCoordinator::StartUnlessServed({"127.0.0.1:0", 1, ""}, {});
  ASSERT_TRUE(first.ok() && second.ok()) << second.status();
  EXPECT_NE((*first)->metrics_address(), (*second)->metrics_address());
  EXPECT_NE((*second)->metrics_address(), "");
}

TEST(HostedCoordinator, MetricsGivenAndTaken_FailedPrecondition) {
  const testing::BusyPort port;
  const auto hosted = HostedCoordinator::StartUnlessServed({"127.0.0.1:0", 1, port.address()}, {});
  EXPECT_TRUE(absl::IsFailedPrecondition(hosted.status())) << hosted.status();
}

TEST(HostedCoordinator, WrongOptionInTheEnvironment_InvalidArgument) {
  const auto hosted = HostedCoordinator::StartUnlessServed({"127.0.0.1:0", 1, "off"},
                                                           {{"GRADWIRE_LEASE_SECONDS", "soon"}});
  EXPECT_THAT(std::string(hosted.status().message()), HasSubstr("GRADWIRE_LEASE_SECONDS"));
}

TEST(HostedCoordinator, Stop_EndsTheWait) {
  const auto hosted = HostedCoordinator::StartUnlessServed({"127.0.0.1:0", 1, "off"}, {});
  ASSERT_TRUE(hosted.ok());
  (*hosted)->Stop("the test is over");
  (*hosted)->AwaitEnd();
}

}  // namespace
}  // namespace gradwire
