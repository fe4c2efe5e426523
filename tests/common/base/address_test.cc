#include "common/base/address.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

TEST(ParseHostPort, Ipv4_IsTakenApart) {
  const HostPort address = ParseHostPort("10.10.1.1:29400").value();
  EXPECT_EQ(address.host, "10.10.1.1");
  EXPECT_EQ(address.port, 29400);
}

TEST(WithoutPort, AnyForm_TheHost) {
  EXPECT_EQ(WithoutPort("10.10.1.2:4711"), "10.10.1.2");
  EXPECT_EQ(WithoutPort("[fd00::1]:29400"), "fd00::1");
  EXPECT_EQ(WithoutPort("[fd00::1]"), "fd00::1");
  EXPECT_EQ(WithoutPort("localhost"), "localhost");
}

TEST(ParseHostPort, Ipv6_LosesItsBrackets) {
  const HostPort address = ParseHostPort("[fd00::1]:0").value();
  EXPECT_EQ(address.host, "fd00::1");
  EXPECT_EQ(address.port, 0);
}

TEST(ParseHostPort, Name_IsKept) {
  for (const char* name : {"node0", "node_0.lab-2"}) {
    EXPECT_EQ(ParseHostPort(absl::StrCat(name, ":1")).value().host, name);
  }
}

TEST(ParseHostPort, Ipv6WithAZone_KeepsIt) {
  EXPECT_EQ(ParseHostPort("[fe80::1%eth0]:7").value().host, "fe80::1%eth0");
}

TEST(ParseHostPort, OtherForm_ShowsTheText) {
  for (const char* text : {"", "29400", "host", ":29400", "host:", "host:x", "host:65536",
                           "host:-1", "fd00::1:29400", "[]:1"}) {
    EXPECT_EQ(ParseHostPort(text).status(),
              absl::InvalidArgumentError(
                  absl::StrCat("address: got '", text,
                               "', expected HOST:PORT, such as 10.10.1.1:29400 or [::1]:29400")));
  }
}

TEST(ParseHostPort, LongestName_IsTakenAndOneByteMoreIsRefused) {
  EXPECT_TRUE(ParseHostPort(std::string(253, 'n') + ":1").ok());
  EXPECT_FALSE(ParseHostPort(std::string(254, 'n') + ":1").ok());
}

// A log would take a line for another one.
TEST(ParseHostPort, CharactersOfNoHost_AreRefusedAndShownByTheirNumber) {
  for (const char* text : {"no host:1", "host\n:1", "host\x1b[2J:1", "a/b:1", "a,b:1"}) {
    const std::string message(ParseHostPort(text).status().message());
    EXPECT_EQ(message.find("address: got '"), 0u) << message;
    EXPECT_EQ(message.find_first_of("\n\x1b"), std::string::npos) << message;
  }
}

TEST(HostPortToString, Ipv4_IsJoined) {
  EXPECT_EQ(ToString(HostPort{"10.1.1.1", 7}), "10.1.1.1:7");
}

TEST(HostPortToString, Ipv6_GetsBrackets) { EXPECT_EQ(ToString(HostPort{"::1", 7}), "[::1]:7"); }

TEST(IsLoopback, OwnHost_IsTrue) {
  EXPECT_TRUE(IsLoopback("127.0.0.1"));
  EXPECT_TRUE(IsLoopback("::1"));
  EXPECT_TRUE(IsLoopback("localhost"));
}

TEST(IsLoopback, OtherHost_IsFalse) {
  EXPECT_FALSE(IsLoopback("10.10.1.127"));
  EXPECT_FALSE(IsLoopback("node0"));
}

TEST(ReachableAt, AllAddresses_HostOfTheOther) {
  EXPECT_EQ(ReachableAt("0.0.0.0:9400", "10.10.1.2:4711"), "10.10.1.2:9400");
  EXPECT_EQ(ReachableAt("[::]:9400", "[fd00::2]:4711"), "[fd00::2]:9400");
}

TEST(ReachableAt, OneAddress_AsItIs) {
  EXPECT_EQ(ReachableAt("127.0.0.1:9400", "10.10.1.2:4711"), "127.0.0.1:9400");
}

TEST(ReachableAt, OtherIsNotKnown_AsItIs) {
  EXPECT_EQ(ReachableAt("0.0.0.0:9400", ""), "0.0.0.0:9400");
}

TEST(DescriptorLimits, RaiseDescriptorLimit_LowLimit_IsEnoughAndNotMoreThanAllowed) {
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  rlimit low = old;
  low.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const size_t before = DescriptorLimit();
  RaiseDescriptorLimit();
  rlimit raised = {};
  getrlimit(RLIMIT_NOFILE, &raised);
  const size_t after = DescriptorLimit();
  setrlimit(RLIMIT_NOFILE, &old);
  EXPECT_EQ(before, 256u);
  EXPECT_EQ(raised.rlim_cur, std::min<rlim_t>(old.rlim_max, 65536));
  EXPECT_EQ(raised.rlim_max, old.rlim_max);
  EXPECT_EQ(after, raised.rlim_cur);
}

}  // namespace
}  // namespace gradwire
