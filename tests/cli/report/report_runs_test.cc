#include "cli/report/report_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/launch/log_lines.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::MakeLog;

// "name: rank rank …" of the runs that these files are of; a file's rank is given.
std::vector<std::string> GroupsOf(const std::vector<std::pair<std::string, int>>& files) {
  std::vector<RankLog> logs;
  for (const auto& [file, rank] : files) logs.push_back(MakeLog(file, rank));
  const auto runs = GroupRuns(std::move(logs));
  if (!runs.ok()) return {std::string(runs.status().message())};
  std::vector<std::string> groups;
  for (const LoggedRun& run : *runs) {
    groups.push_back(run.name + ":");
    for (const RankLog& log : run.ranks) groups.back() += " " + std::to_string(log.rank);
  }
  return groups;
}

TEST(GroupRuns, LaunchersNames_AreOneRunByRank) {
  EXPECT_THAT(GroupsOf({{"x/ddp.rank1.jsonl", 1}, {"x/ddp.rank0.jsonl", 0}}),
              ElementsAre("ddp: 0 1"));
}

TEST(GroupRuns, TwoRuns_AreToldApart) {
  EXPECT_THAT(GroupsOf({{"a.rank0.jsonl", 0}, {"b.rank0.jsonl", 0}, {"a.rank1.jsonl", 1}}),
              ElementsAre("a: 0 1", "b: 0"));
}

TEST(GroupRuns, NumbersAtTheEnd_AreRanks) {
  EXPECT_THAT(GroupsOf({{"ddp-4-0.jsonl", 0}, {"ddp-4-1.jsonl", 1}}), ElementsAre("ddp-4: 0 1"));
}

TEST(GroupRuns, FoldersByRank_AreOneRun) {
  EXPECT_THAT(GroupsOf({{"0/ddp.jsonl", 0}, {"1/ddp.jsonl", 1}}), ElementsAre("ddp: 0 1"));
}

TEST(GroupRuns, SameNamesInTwoFolders_HaveTheFolder) {
  EXPECT_THAT(
      GroupsOf(
          {{"old/ddp.rank0.jsonl", 0}, {"new/ddp.rank0.jsonl", 0}, {"new/ddp.rank1.jsonl", 1}}),
      ElementsAre("old/ddp: 0", "new/ddp: 0 1"));
}

TEST(GroupRuns, LogAlone_KeepsItsName) {
  EXPECT_THAT(GroupsOf({{"run-0.jsonl", 0}}), ElementsAre("run-0: 0"));
}

TEST(GroupRuns, NameWithoutRank_IsItsOwnRun) {
  EXPECT_THAT(GroupsOf({{"fast.jsonl", 0}, {"slow.jsonl", 0}}), ElementsAre("fast: 0", "slow: 0"));
}

TEST(MakeRun, TwoLogsOfOneRank_NameBothAndTheWayOut) {
  const auto run = MakeRun("r", {MakeLog("a", 1), MakeLog("b", 1)});
  EXPECT_EQ(run.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(run.status().message(),
            "'a' and 'b' are both of rank 1 of run r; if they are of two runs, say so: --run "
            "NAME=FILE,FILE");
}

TEST(ParseNamedLogs, NameAndFiles_AreTaken) {
  const auto logs = ParseNamedLogs(" my run =a,b");
  ASSERT_TRUE(logs.ok()) << logs.status();
  EXPECT_EQ(logs->name, "my run");
  EXPECT_THAT(logs->files, ElementsAre("a", "b"));
}

TEST(ParseNamedLogs, NameOrFilesMissing_IsShown) {
  for (const char* text : {"", "a", "=a", "a=", "a=,"}) {
    EXPECT_EQ(ParseNamedLogs(text).status().message(),
              std::string("got '") + text + "', expected NAME=FILE[,FILE...]");
  }
}

TEST(SetupName, NumberOfRanks_IsTakenAway) {
  EXPECT_EQ(SetupName("ddp-4", 4), "ddp");
  EXPECT_EQ(SetupName("ddp-w4", 4), "ddp");
  EXPECT_EQ(SetupName("4ranks-ddp", 4), "ddp");
  EXPECT_EQ(SetupName("ddp_4nodes", 4), "ddp");
  EXPECT_EQ(SetupName("a-4-b", 4), "a-b");
}

TEST(SetupName, OtherNumbers_Stay) {
  EXPECT_EQ(SetupName("ddp-8", 4), "ddp-8");
  EXPECT_EQ(SetupName("4", 4), "4");
}

TEST(NotesOf, WholeRun_HasNone) {
  const auto run = MakeRun("r", {MakeLog("a", 0), MakeLog("b", 1)});
  EXPECT_THAT(NotesOf({*run}), IsEmpty());
}

TEST(NotesOf, RankMissing_IsNamed) {
  const auto run = MakeRun("r", {MakeLog("a", 1), MakeLog("b", 3)});
  EXPECT_THAT(NotesOf({*run}),
              ElementsAre("Run r has no log of rank 0, 2; its figures are of the other ranks "
                          "alone."));
}

TEST(NotesOf, ManyRanksMissing_AreCounted) {
  const auto run = MakeRun("r", {MakeLog("a", 60000)});
  EXPECT_THAT(NotesOf({*run}),
              ElementsAre("Run r has no log of 60000 ranks; its figures are of the other ranks "
                          "alone."));
}

TEST(NotesOf, RanksThatEndApart_AreNamed) {
  const auto run = MakeRun("r", {MakeLog("a", 0, 5), MakeLog("b", 1, 3)});
  EXPECT_THAT(NotesOf({*run}),
              ElementsAre("Run r: the log of rank 1 ends with step 2, that of rank 0 with step 4, "
                          "so a worker was lost or the run goes on."));
}

}  // namespace
}  // namespace gradwire
