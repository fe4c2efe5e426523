#include "cli/launch/launch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"

namespace gradwire {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

const LaunchPlaces kPlaces = {"/bin", "/scratch"};

LaunchOptions Options(const std::vector<std::string>& args, const Environment& environment = {}) {
  const auto parsed = ParseLaunchOptions(args, environment);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed->options;
}

TEST(CoordinatorMember, Defaults_ListenOnLoopbackOnly) {
  const Member member = CoordinatorMember(Options({"--workers", "3"}), kPlaces, {});
  EXPECT_EQ(member.name, "coordinator");
  EXPECT_TRUE(member.serves);
  EXPECT_THAT(member.command.argv,
              ElementsAre("/bin/gradwire-coordinator", "--listen", "127.0.0.1:0", "--metrics",
                          "127.0.0.1:0", "--port-file", "/scratch/ports", "--workers", "3",
                          "--world-size", "3"));
}

TEST(CoordinatorMember, GivenOptions_ArePassedOn) {
  const Member member = CoordinatorMember(
      Options({"--listen", "0.0.0.0:5", "--lease-seconds", "3", "--metrics", "off"}), kPlaces, {});
  EXPECT_THAT(member.command.argv,
              ElementsAre("/bin/gradwire-coordinator", "--lease-seconds", "3", "--listen",
                          "0.0.0.0:5", "--metrics", "off", "--port-file", "/scratch/ports",
                          "--workers", "1", "--world-size", "1"));
}

TEST(CoordinatorMember, LingerSeconds_AreLeftToIt) {
  const Member member = CoordinatorMember(Options({"--linger-seconds", "15"}), kPlaces, {});
  EXPECT_EQ(member.linger, absl::Seconds(15));
  EXPECT_THAT(member.command.argv, Contains("--linger-seconds"));
}

TEST(WorkerMember, Place_IsInItsEnvironment) {
  const Member member = WorkerMember(
      Options({"--workers", "2", "--", "--lr", "1"}), kPlaces,
      {{"HOME", "/h"}, {"GRADWIRE_RANK", "9"}, {"GRADWIRE_LISTEN", "x:1"}}, 1, "127.0.0.1:5", 0);
  EXPECT_EQ(member.name, "rank 1");
  EXPECT_THAT(member.command.argv, ElementsAre("/bin/gradwire-worker", "--lr", "1"));
  EXPECT_THAT(member.command.environment,
              ElementsAre(Pair("GRADWIRE_COORDINATOR", "127.0.0.1:5"),
                          Pair("GRADWIRE_LOCAL_WORLD_SIZE", "2"), Pair("GRADWIRE_RANK", "1"),
                          Pair("GRADWIRE_SUMMARY", "/scratch/summary-1.json"),
                          Pair("GRADWIRE_WORLD_SIZE", "2"), Pair("HOME", "/h")));
}

TEST(CoordinatorMember, MoreRanksThanWorkers_GetsBothNumbers) {
  const Member member =
      CoordinatorMember(Options({"--workers", "2", "--world-size", "5"}), kPlaces, {});
  const std::string args = absl::StrJoin(member.command.argv, " ");
  EXPECT_THAT(args, HasSubstr("--workers 2 --world-size 5"));
}

TEST(WorkerMember, SeveralRanks_AreNamedAndInItsEnvironment) {
  const LaunchOptions options = Options({"--workers", "2", "--world-size", "5"});
  const Member first = WorkerMember(options, kPlaces, {}, 0, "a:1", 0);
  EXPECT_EQ(first.name, "ranks 0-2");
  EXPECT_THAT(first.command.environment,
              ElementsAre(Pair("GRADWIRE_COORDINATOR", "a:1"),
                          Pair("GRADWIRE_LOCAL_WORLD_SIZE", "5"), Pair("GRADWIRE_RANK", "0,1,2"),
                          Pair("GRADWIRE_SUMMARY", "/scratch/summary-{rank}.json"),
                          Pair("GRADWIRE_WORLD_SIZE", "5")));
  EXPECT_EQ(WorkerMember(options, kPlaces, {}, 1, "a:1", 0).name, "ranks 3-4");
}

TEST(WorkerMember, SeveralRanks_LogAndAddressesAreTheirs) {
  const LaunchOptions options = Options({"--workers", "2", "--world-size", "4", "--", "--log-jsonl",
                                         "run.jsonl", "--metrics", "127.0.0.1:9500"});
  EXPECT_THAT(
      WorkerMember(options, kPlaces, {}, 1, "a:1", 0).command.argv,
      ElementsAre("/bin/gradwire-worker", "--log-jsonl", "run.jsonl", "--metrics", "127.0.0.1:9500",
                  "--log-jsonl", "run.rank{rank}.jsonl", "--metrics", "127.0.0.1:9502"));
}

TEST(WorkerMember, OptionsOfOneOfItsRanks_AreItsOwn) {
  const LaunchOptions options =
      Options({"--workers", "2", "--world-size", "4", "--rank-options", "3:--seed 3"});
  EXPECT_THAT(WorkerMember(options, kPlaces, {}, 1, "a:1", 0).command.argv,
              ElementsAre("/bin/gradwire-worker", "--seed", "3"));
  EXPECT_THAT(WorkerMember(options, kPlaces, {}, 0, "a:1", 0).command.argv,
              ElementsAre("/bin/gradwire-worker"));
}

TEST(WorkerMember, OptionsOfOneRank_ComeLast) {
  const LaunchOptions options =
      Options({"--workers", "2", "--rank-options", "1:--seed 3", "--", "--seed", "2"});
  EXPECT_THAT(WorkerMember(options, kPlaces, {}, 1, "a:1", 0).command.argv,
              ElementsAre("/bin/gradwire-worker", "--seed", "2", "--seed", "3"));
  EXPECT_THAT(WorkerMember(options, kPlaces, {}, 0, "a:1", 0).command.argv,
              ElementsAre("/bin/gradwire-worker", "--seed", "2"));
}

TEST(WorkerMember, LogAndMetrics_DifferByRank) {
  const LaunchOptions options = Options(
      {"--workers", "2", "--", "--log-jsonl", "d/run.jsonl", "--metrics", "127.0.0.1:9500"});
  EXPECT_THAT(WorkerMember(options, kPlaces, {}, 1, "a:1", 0).command.argv,
              ElementsAre("/bin/gradwire-worker", "--log-jsonl", "d/run.jsonl", "--metrics",
                          "127.0.0.1:9500", "--log-jsonl", "d/run.rank1.jsonl", "--metrics",
                          "127.0.0.1:9501"));
}

TEST(WorkerMember, LogFromEnvironment_DiffersByRank) {
  const Environment environment = {{"GRADWIRE_LOG_JSONL", "run-{rank}"}};
  const LaunchOptions options = Options({"--workers", "2"}, environment);
  EXPECT_THAT(WorkerMember(options, kPlaces, environment, 1, "a:1", 0).command.argv,
              ElementsAre("/bin/gradwire-worker", "--log-jsonl", "run-1"));
}

TEST(WorkerMember, Terminal_GivesRankZeroTheBar) {
  const LaunchOptions options = Options({"--workers", "2"});
  const Member first = WorkerMember(options, kPlaces, {}, 0, "a:1", 120);
  EXPECT_TRUE(first.has_bar);
  EXPECT_THAT(first.command.environment, Contains(Pair("GRADWIRE_PROGRESS", "bar")));
  EXPECT_THAT(first.command.environment, Contains(Pair("COLUMNS", "120")));
  const Member second = WorkerMember(options, kPlaces, {}, 1, "a:1", 120);
  EXPECT_FALSE(second.has_bar);
  EXPECT_THAT(second.command.environment, Contains(Pair("GRADWIRE_PROGRESS", "none")));
}

TEST(WorkerMember, ProgressInEnvironment_IsKept) {
  const Member member =
      WorkerMember(Options({}), kPlaces, {{"GRADWIRE_PROGRESS", "plain"}}, 0, "a:1", 120);
  EXPECT_THAT(member.command.environment, Contains(Pair("GRADWIRE_PROGRESS", "plain")));
}

TEST(WorkerMember, NoTerminal_LeavesProgressAlone) {
  EXPECT_THAT(WorkerMember(Options({}), kPlaces, {}, 0, "a:1", 0).command.environment,
              Not(Contains(Key("GRADWIRE_PROGRESS"))));
}

TEST(ProgramMember, Place_IsInItsEnvironment) {
  const Member member = ProgramMember(
      Options({"--program", "/bin/sh", "--workers", "2", "--rank-options", "1:b c", "--", "a"}),
      {{"HOME", "/h"}, {"RANK", "9"}, {"GRADWIRE_PROGRAM", "/bin/sh"}}, 1, "[::1]:5");
  EXPECT_EQ(member.name, "rank 1");
  EXPECT_FALSE(member.serves);
  EXPECT_THAT(member.command.argv, ElementsAre("/bin/sh", "a", "b", "c"));
  EXPECT_THAT(
      member.command.environment,
      ElementsAre(Pair("GRADWIRE_COORDINATOR", "[::1]:5"), Pair("GRADWIRE_LOCAL_RANK", "1"),
                  Pair("GRADWIRE_LOCAL_WORLD_SIZE", "2"), Pair("GRADWIRE_RANK", "1"),
                  Pair("GRADWIRE_WORLD_SIZE", "2"), Pair("HOME", "/h"), Pair("LOCAL_RANK", "1"),
                  Pair("LOCAL_WORLD_SIZE", "2"), Pair("MASTER_ADDR", "::1"),
                  Pair("MASTER_PORT", "5"), Pair("RANK", "1"), Pair("WORLD_SIZE", "2")));
}

TEST(CoordinatorMember, Program_MayJoinAsLateAsItLikes) {
  EXPECT_THAT(CoordinatorMember(Options({"--program", "/bin/sh"}), kPlaces, {}).command.argv,
              Contains("--rendezvous-timeout-seconds"));
  EXPECT_THAT(
      CoordinatorMember(Options({"--program", "/bin/sh", "--rendezvous-timeout-seconds", "60"}),
                        kPlaces, {})
          .command.argv,
      Contains("60"));
}

TEST(NeedsCoordinator, SyncNone_NeedsNone) {
  EXPECT_FALSE(NeedsCoordinator(Options({"--", "--sync", "none"})));
  EXPECT_TRUE(NeedsCoordinator(Options({"--", "--sync", "all-reduce"})));
}

TEST(PathForRank, Placeholder_IsReplaced) {
  EXPECT_EQ(PathForRank("a-{rank}.jsonl", 2, 4), "a-2.jsonl");
}

TEST(PathForRank, SeveralRanksOfAWorker_AreLeftToIt) {
  EXPECT_EQ(PathForRank("a.jsonl", "{rank}", 4), "a.rank{rank}.jsonl");
  EXPECT_EQ(PathForRank("a-{rank}.jsonl", "{rank}", 4), "a-{rank}.jsonl");
}

TEST(PathForRank, NoExtension_RankIsAppended) { EXPECT_EQ(PathForRank("d/a", 2, 4), "d/a.rank2"); }

TEST(PathForRank, OneWorker_KeepsThePath) { EXPECT_EQ(PathForRank("a.jsonl", 0, 1), "a.jsonl"); }

TEST(AddressForRank, Port_IsRaisedByTheRank) {
  EXPECT_EQ(*AddressForRank("[::1]:9500", 3), "[::1]:9503");
  EXPECT_EQ(*AddressForRank("0.0.0.0:0", 3), "0.0.0.0:0");
}

TEST(AddressForRank, BeyondTheLastPort_IsRefused) {
  EXPECT_EQ(AddressForRank("h:65535", 1).status().message(), "no port 65536 for rank 1 (h:65535)");
}

TEST(CoordinatorAddress, PortFile_GivesAnAddressToConnectTo) {
  EXPECT_EQ(CoordinatorAddress("grpc=0.0.0.0:5\nmetrics=127.0.0.1:6\n"), "127.0.0.1:5");
  EXPECT_EQ(CoordinatorAddress("grpc=[::]:5\n"), "[::1]:5");
  EXPECT_EQ(CoordinatorAddress("grpc=10.0.0.1:5\n"), "10.0.0.1:5");
}

TEST(CoordinatorAddress, NotThereYet_IsEmpty) { EXPECT_EQ(CoordinatorAddress(""), ""); }

TEST(MetricsAddress, PortFile_GivesIt) {
  EXPECT_EQ(MetricsAddress("grpc=0.0.0.0:5\nmetrics=127.0.0.1:6\n"), "127.0.0.1:6");
  EXPECT_EQ(MetricsAddress("grpc=0.0.0.0:5\n"), "");
}

}  // namespace
}  // namespace gradwire
