#include "common/rpc/reach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace gradwire {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kPrivateHost = {"127.0.0.1", "::1", "10.10.1.1", "fe80::1%eth0"};
const std::vector<std::string> kPublicHost = {"127.0.0.1", "10.10.1.1", "8.8.4.4"};

std::string Refusal(const std::string& listen, const std::vector<std::string>& own) {
  const absl::Status status = CheckReach("--listen", listen, own);
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(IsPrivateAddress, OfThisHostAndPrivateNetworks_AreWithTheirEdges) {
  for (const char* address : {"127.0.0.1",      "127.255.255.255",
                              "10.0.0.0",       "10.255.255.255",
                              "172.16.0.1",     "172.31.255.255",
                              "192.168.7.7",    "169.254.1.1",
                              "100.64.0.1",     "100.127.255.255",
                              "192.0.2.9",      "198.51.100.9",
                              "203.0.113.9",    "::1",
                              "fc00::1",        "fdff::1",
                              "fe80::1",        "febf::1",
                              "fe80::1%eth0",   "2001:db8::1",
                              "::ffff:10.1.1.1"}) {
    EXPECT_TRUE(IsPrivateAddress(address)) << address;
  }
}

TEST(IsPrivateAddress, OthersAndWhatIsNone_AreNot) {
  for (const char* address : {"126.255.255.255",
                              "128.0.0.1",
                              "9.255.255.255",
                              "11.0.0.0",
                              "172.15.255.255",
                              "172.32.0.0",
                              "192.167.0.1",
                              "192.169.0.1",
                              "100.63.255.255",
                              "100.128.0.0",
                              "192.0.3.1",
                              "8.8.8.8",
                              "::2",
                              "::",
                              "fbff::1",
                              "fe00::1",
                              "fec0::1",
                              "2001:db9::1",
                              "2606:4700::1",
                              "::ffff:8.8.8.8",
                              "0.0.0.0",
                              "localhost",
                              "10.0.0",
                              "",
                              "::127.0.0.1"}) {
    EXPECT_FALSE(IsPrivateAddress(address)) << address;
  }
}

TEST(CheckReach, PublicAddress_NamesItAndWhatToDo) {
  const std::string why = Refusal("8.8.8.8:29400", kPrivateHost);
  EXPECT_THAT(why, HasSubstr("--listen: got 8.8.8.8:29400: any host could reach that address"));
  EXPECT_THAT(why, HasSubstr("TLS (--tls-cert, --tls-key, --tls-ca)"));
  EXPECT_THAT(why, HasSubstr("--insecure"));
  EXPECT_THAT(Refusal("[2606:4700::1]:1", kPrivateHost),
              HasSubstr("any host could reach that address"));
}

TEST(CheckReach, AllAddresses_AreThoseOfTheHost) {
  for (const char* listen : {"0.0.0.0:29400", "[::]:29400"}) {
    EXPECT_EQ(Refusal(listen, kPrivateHost), "");
    EXPECT_THAT(Refusal(listen, kPublicHost), HasSubstr(", which is 8.8.4.4 too: any host"));
    EXPECT_EQ(Refusal(listen, {}), "");
  }
}

TEST(CheckReach, WhatStaysHere_IsFine) {
  for (const char* listen : {"", "off", "127.0.0.1:0", "10.10.1.1:1", "localhost:1", "[::1]:1"}) {
    EXPECT_EQ(Refusal(listen, kPublicHost), "") << listen;
  }
}

TEST(CheckReach, NameThatNobodyKnows_IsLeftToListening) {
  EXPECT_EQ(Refusal("no such host:1", kPublicHost).find("anybody"), std::string::npos);
}

TEST(CheckReach, NoAddress_IsNamed) {
  EXPECT_THAT(Refusal("29400", kPrivateHost), HasSubstr("got '29400'"));
}

TEST(CheckReach, TlsOrInsecure_LetsItBe) {
  SecurityOptions options;
  EXPECT_FALSE(CheckReach("--listen", "8.8.8.8:1", options).ok());
  options.insecure = true;
  EXPECT_TRUE(CheckReach("--listen", "8.8.8.8:1", options).ok());
  options = {};
  options.tls_cert = "certificate";
  EXPECT_TRUE(CheckReach("--listen", "8.8.8.8:1", options).ok());
}

TEST(OwnAddresses, Host_HasLoopback) {
  const std::vector<std::string> own = OwnAddresses();
  EXPECT_EQ(std::count(own.begin(), own.end(), "127.0.0.1"), 1);
}

}  // namespace
}  // namespace gradwire
