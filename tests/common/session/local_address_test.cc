#include "common/session/local_address.h"

#include <gtest/gtest.h>

#include <string>

namespace gradwire {
namespace {

TEST(LocalAddressTowards, NoHostAndPort_InvalidArgument) {
  for (const char* text : {"", "127.0.0.1", "127.0.0.1:", "a:b", "a:65536"}) {
    EXPECT_EQ(LocalAddressTowards(text).status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(AdvertisedAddress, Host_IsTheOneGivenOrTheOneTowardsTheCoordinator) {
  EXPECT_EQ(AdvertisedAddress("node3", "x", "0.0.0.0:4711").value(), "node3:4711");
  EXPECT_EQ(AdvertisedAddress("fd00::3", "x", "[::]:4711").value(), "[fd00::3]:4711");
  EXPECT_EQ(AdvertisedAddress("", "127.0.0.1:1", "0.0.0.0:4711").value(), "127.0.0.1:4711");
}

TEST(ListenAddressOf, NothingGiven_IsTheAddressTowardsTheCoordinatorAlone) {
  EXPECT_EQ(ListenAddressOf("", "", "127.0.0.1:1").value(), "127.0.0.1:0");
  EXPECT_EQ(ListenAddressOf("", "", "[::1]:1").value(), "[::1]:0");
  EXPECT_EQ(ListenAddressOf("", "", "nowhere").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ListenAddressOf, GivenOrWithANameForOthers_IsNot) {
  EXPECT_EQ(ListenAddressOf("10.10.1.1:7", "", "127.0.0.1:1").value(), "10.10.1.1:7");
  EXPECT_EQ(ListenAddressOf("", "node3", "127.0.0.1:1").value(), "0.0.0.0:0");
}

TEST(AdvertisedAddress, WrongAddresses_AreErrors) {
  EXPECT_EQ(AdvertisedAddress("node3", "x", "nowhere").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AdvertisedAddress("", "nowhere", "0.0.0.0:4711").status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gradwire
