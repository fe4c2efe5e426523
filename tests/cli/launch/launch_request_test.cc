#include "cli/launch/launch_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::gradwire::testing::TempDir;
using ::testing::Contains;
using ::testing::Not;
using Json = nlohmann::ordered_json;

Json RequestOf(const std::vector<std::string>& args) {
  const auto parsed = ParseLaunchOptions(args, {});
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return LaunchRequest(parsed->options);
}

TEST(LaunchRequest, Defaults_CoordinatorListensOnLoopbackOnly) {
  EXPECT_EQ(RequestOf({"--workers", "3"})["coordinator"], Json({{"listen", "127.0.0.1:0"},
                                                                {"metrics", "127.0.0.1:0"},
                                                                {"workers", "3"},
                                                                {"world-size", "3"}}));
}

TEST(LaunchRequest, MoreRanksThanWorkers_CoordinatorGetsBothNumbers) {
  const Json coordinator = RequestOf({"--workers", "2", "--world-size", "5"})["coordinator"];
  EXPECT_EQ(coordinator["workers"], "2");
  EXPECT_EQ(coordinator["world-size"], "5");
}

TEST(LaunchRequest, GivenOptions_ArePassedOnToTheCoordinatorButForTheLaunchers) {
  const Json coordinator = RequestOf({"--listen", "0.0.0.0:5", "--lease-seconds", "3", "--metrics",
                                      "off", "--link-gbit", "1", "--trace", "t", "--rank-options",
                                      "0:--loaders 2", "--linger-seconds", "15"})["coordinator"];
  EXPECT_EQ(coordinator, Json({{"lease-seconds", "3"},
                               {"linger-seconds", "15"},
                               {"listen", "0.0.0.0:5"},
                               {"metrics", "off"},
                               {"workers", "1"},
                               {"world-size", "1"}}));
}

TEST(LaunchRequest, Hostfile_CoordinatorsAddressIsTheHosts) {
  const Json request = RequestOf({"--hostfile", "/no/file", "--per-host", "2", "--network",
                                  "10.10.1.0/24", "--", "--data-dir", "d"});
  EXPECT_EQ(request["coordinator"], Json({{"workers", "1"}, {"world-size", "1"}}));
  EXPECT_EQ(request["hostfile"], "/no/file");
  EXPECT_EQ(request["per_host"], 2);
  EXPECT_EQ(request["network"], "10.10.1.0/24");
  EXPECT_EQ(request["data_dir"], "d");
  EXPECT_EQ(request["lease_seconds"], 10);
}

TEST(LaunchRequest, SyncNone_HasNoCoordinator) {
  EXPECT_TRUE(RequestOf({"--", "--sync", "none"})["coordinator"].is_null());
}

TEST(LaunchRequest, RankOptions_ArePairs) {
  EXPECT_EQ(RequestOf({"--workers", "3", "--rank-options", "2:--loaders 3"})["rank_options"],
            Json::parse(R"([[2, ["--loaders", "3"]]])"));
}

TEST(LaunchRequest, WorkersOptionsThatDifferByRank_AreTold) {
  const Json request = RequestOf(
      {"--", "--log-jsonl", "l", "--metrics", "127.0.0.1:9500", "--listen", "127.0.0.1:7000"});
  EXPECT_EQ(request["listen"], "127.0.0.1:7000");
  EXPECT_EQ(request["log_jsonl"], "l");
  EXPECT_EQ(request["metrics"], "127.0.0.1:9500");
}

TEST(LaunchRequest, FilesOfTheRun_AreTold) {
  const TempDir dir;
  testing::WriteFile(dir.File("c.ini"), "");
  const Json request = RequestOf(
      {"--summary", "s", "--trace", "t", "--config", dir.File("c.ini"), "--", "--weights", "w"});
  EXPECT_EQ(request["summary"], "s");
  EXPECT_EQ(request["trace"], "t");
  EXPECT_EQ(request["config"], dir.File("c.ini"));
  EXPECT_EQ(request["weights"], "w");
}

TEST(LaunchRequest, PlainHttp_IsToldToTheCoordinatorIfItIsOn) {
  EXPECT_EQ(RequestOf({"--plain-http"})["coordinator"]["plain-http"], "true");
  EXPECT_FALSE(RequestOf({"--plain-http", "false"})["coordinator"].contains("plain-http"));
}

TEST(LaunchRequest, LinkSpeed_IsTimeOfAByte) {
  EXPECT_TRUE(RequestOf({})["seconds_per_byte"].is_null());
  // 1448 of 1514 bytes are payload.
  EXPECT_DOUBLE_EQ(RequestOf({"--link-gbit", "2"})["seconds_per_byte"].get<double>(),
                   8 / 2e9 * 1514 / 1448);
}

TEST(LaunchRequest, Traits_AreThoseOfTheTables) {
  const Json request = RequestOf({});
  EXPECT_EQ(request["overlapping"], Json::array({"ddp", "parameter-server"}));
  EXPECT_EQ(request["periodic"], Json::array({"local-sgd", "diloco"}));
  EXPECT_EQ(request["served"], Json::array({"parameter-server"}));
  EXPECT_EQ(request["through_coordinator"], Json::array({"coordinator"}));
  const auto halving = request["halving"].get<std::vector<std::string>>();
  EXPECT_THAT(halving, Contains("ring"));
  EXPECT_THAT(halving, Not(Contains("gloo")));
  EXPECT_THAT(halving, Not(Contains("memory")));  // it sends nothing
  EXPECT_EQ(request["mpirun"], false);
  EXPECT_EQ(RequestOf({"--", "--backend", "mpi"})["mpirun"], true);
}

// The launcher waits for these times itself.
TEST(LaunchRequest, LeaseAndLinger_AreThoseGiven) {
  const Json request = RequestOf({"--lease-seconds", "3", "--linger-seconds", "15"});
  EXPECT_EQ(request["lease_seconds"], 3);
  EXPECT_EQ(request["linger_seconds"], 15);
}

// Its file may be on this machine alone.
TEST(LaunchRequest, TokenFile_IsTheLaunchersAlone) {
  const Json request = RequestOf({"--token-file", "t"});
  EXPECT_EQ(request["token_file"], "t");
  EXPECT_FALSE(request["coordinator"].contains("token-file"));
}

TEST(LaunchRequest, Program_HasNoDataSetOfOurs) {
  EXPECT_EQ(RequestOf({"--", "--dataset", "cifar10"})["dataset"], "cifar10");
  const Json request = RequestOf({"--program", "/bin/sh"});
  EXPECT_EQ(request["program"], "/bin/sh");
  EXPECT_EQ(request["dataset"], "");
}

}  // namespace
}  // namespace gradwire
