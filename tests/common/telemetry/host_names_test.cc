#include <gtest/gtest.h>

#include "common/telemetry/http_server.h"

namespace gradwire {
namespace {

TEST(IsOurs, AddressesAndLocalNames_Are) {
  for (const char* host :
       {"", "127.0.0.1", "10.10.1.1:9400", "[::1]:9400", "[fd00::1]", "localhost:9400", "node0",
        "node0.local", "run.svc", "Node0.Internal.", "node0.local.:9400"}) {
    EXPECT_TRUE(IsOurs(host, {})) << host;
  }
}

TEST(IsOurs, NamesOfThePublicDns_AreNot) {
  for (const char* host : {"example.com", "rebound.example.com:9400", "127.0.0.1.example.com",
                           "local.example.com", "x.local.example.com", "a.svc.example.com",
                           "x.home.arpa.example.com", "a.cluster.example.com:9400", "10.10.1"}) {
    EXPECT_FALSE(IsOurs(host, {"other.example.com"})) << host;
  }
}

TEST(IsOurs, NamesThatWereConfigured_Are) {
  EXPECT_TRUE(IsOurs("Runs.example.com:9400", {"runs.example.com"}));
}

}  // namespace
}  // namespace gradwire
