#include <gtest/gtest.h>

#include "common/session/connect.h"
#include "tests/support/sockets.h"

namespace gradwire {
namespace {

TEST(Probe, SomebodyListens_Served) {
  const testing::BusyPort port;
  EXPECT_EQ(Probe(port.address()).value(), AddressUse::kServed);
}

TEST(Probe, NobodyListensHere_Free) {
  EXPECT_EQ(Probe(testing::UnusedAddress()).value(), AddressUse::kFree);
}

TEST(Probe, UnknownName_Elsewhere) {
  EXPECT_EQ(Probe("no-such-host.invalid:29400").value(), AddressUse::kElsewhere);
}

TEST(Probe, NoAddress_InvalidArgument) {
  EXPECT_TRUE(absl::IsInvalidArgument(Probe("here").status()));
}

}  // namespace
}  // namespace gradwire
