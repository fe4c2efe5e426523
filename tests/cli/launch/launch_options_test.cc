#include "cli/launch/launch_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string ErrorOf(const std::vector<std::string>& args, const Environment& environment = {}) {
  return std::string(ParseLaunchOptions(args, environment).status().message());
}

TEST(ParseLaunchOptions, BothSides_AreTaken) {
  const auto parsed = ParseLaunchOptions(
      {"--workers", "4", "--summary", "s", "--", "--sync", "gather-scatter"}, {});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.workers, 4);
  EXPECT_EQ(parsed->options.summary, "s");
  EXPECT_EQ(parsed->options.worker.sync, "gather-scatter");
}

TEST(ParseLaunchOptions, ListenInEnvironment_IsTheCoordinators) {
  const auto parsed = ParseLaunchOptions({}, {{"GRADWIRE_LISTEN", "127.0.0.1:7"}});
  EXPECT_EQ(parsed->options.coordinator.listen, "127.0.0.1:7");
  EXPECT_EQ(parsed->options.worker.listen, WorkerOptions().listen);
}

TEST(ParseLaunchOptions, ConfigFile_IsReadByBothSides) {
  testing::TempDir dir;
  testing::WriteFile(dir.File("c.ini"),
                     "[launch]\nworkers = 2\n[coordinator]\nlease-seconds = 3\n"
                     "[worker]\nbatch-size = 8\n");
  const auto parsed = ParseLaunchOptions({"--config", dir.File("c.ini")}, {});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.workers, 2);
  EXPECT_EQ(parsed->options.coordinator.lease_seconds, 3);
  EXPECT_EQ(parsed->options.worker.batch_size, 8);
}

// A shell's <(...) is such a file.
TEST(ParseLaunchOptions, ConfigThatTheWorkersCannotRead_IsRefused) {
  int ends[2] = {};
  ASSERT_EQ(pipe(ends), 0);
  close(ends[1]);
  const std::string path = absl::StrCat("/dev/fd/", ends[0]);
  constexpr char kExpected[] =
      ", expected a file with a name of its own, because the workers read it again";
  EXPECT_EQ(ErrorOf({"--config", path}), absl::StrCat("--config: got '", path, "'", kExpected));
  EXPECT_EQ(ErrorOf({}, {{"GRADWIRE_CONFIG", path}}),
            absl::StrCat("GRADWIRE_CONFIG: got '", path, "'", kExpected));
  close(ends[0]);
  EXPECT_EQ(ErrorOf({"--config", "/dev/stdin"}),
            absl::StrCat("--config: got '/dev/stdin'", kExpected));
  EXPECT_EQ(ErrorOf({"--config", "/dev/null"}), "");
}

TEST(ParseLaunchOptions, NoWorldSize_IsTheNumberOfWorkers) {
  EXPECT_EQ(ParseLaunchOptions({"--workers", "3"}, {})->options.world_size, 3);
}

TEST(ParseLaunchOptions, FewerRanksThanWorkers_IsRefused) {
  EXPECT_EQ(ErrorOf({"--workers", "3", "--world-size", "2"}),
            "--world-size: got 2, expected at least one rank for each of 3 workers");
}

TEST(ParseLaunchOptions, SeveralRanksWithoutSync_IsRefused) {
  EXPECT_THAT(ErrorOf({"--world-size", "2", "--", "--sync", "none"}),
              HasSubstr("--sync none is for a single worker, but --world-size is 2"));
}

TEST(ParseLaunchOptions, TorchrunsEnvironment_DoesNotPlaceTheWorkers) {
  EXPECT_TRUE(ParseLaunchOptions({"--workers", "2"}, {{"RANK", "5"}, {"WORLD_SIZE", "6"}}).ok());
}

TEST(ParseLaunchOptions, CoursesVariables_DoNotPlaceTheWorkers) {
  EXPECT_TRUE(
      ParseLaunchOptions({}, {{"GRADWIRE_MASTER_IP", "h"}, {"GRADWIRE_NUM_NODES", "4"}}).ok());
}

TEST(CountPlaces, Slots_CountUnlessPerHostSaysSo) {
  const std::string text = "# all\n\na slots=4 # four\nme@b\n\tc max_slots=9\n";
  EXPECT_EQ(CountPlaces(text, 0), 6);
  EXPECT_EQ(CountPlaces(text, 2), 6);
  EXPECT_EQ(CountPlaces(text, 3), 9);
  EXPECT_EQ(CountPlaces("", 3), 0);
  EXPECT_EQ(CountPlaces("a slots=0\nb slots=many\n", 0), 2);
  EXPECT_EQ(CountPlaces("a slots=2\r\n\r\nb\r\n", 0), 3);
}

TEST(ParseLaunchOptions, Hostfile_IsFilledUnlessFewerAreWanted) {
  testing::TempDir dir;
  testing::WriteFile(dir.File("hosts"), "a slots=2\nb\n");
  const std::vector<std::string> args = {"--hostfile", dir.File("hosts"), "--workers"};
  EXPECT_EQ(ParseLaunchOptions({args[0], args[1]}, {})->options.workers, 3);
  EXPECT_EQ(ParseLaunchOptions({args[0], args[1]}, {})->options.world_size, 3);
  EXPECT_EQ(ParseLaunchOptions({args[0], args[1], args[2], "2"}, {})->options.workers, 2);
  EXPECT_THAT(ErrorOf({args[0], args[1], args[2], "4"}),
              HasSubstr("--workers: got 4, but the hosts of "));
}

TEST(ParseLaunchOptions, HostfileWithTooManyPlaces_IsRefused) {
  testing::TempDir dir;
  testing::WriteFile(dir.File("hosts"), "a slots=1025\n");
  EXPECT_THAT(ErrorOf({"--hostfile", dir.File("hosts")}), HasSubstr("--workers: got 1025, but"));
  EXPECT_EQ(ErrorOf({"--hostfile", dir.File("hosts"), "--workers", "1024"}), "");
}

TEST(ParseLaunchOptions, VariableThatNobodyKnows_IsAWarning) {
  const auto parsed = ParseLaunchOptions({}, {{"GRADWIRE_WORKRES", "2"}});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->warnings, ElementsAre(HasSubstr("GRADWIRE_WORKRES")));
}

TEST(ParseLaunchOptions, CoordinatorThatAnyHostCouldReach_IsRefused) {
  EXPECT_THAT(ErrorOf({"--listen", "8.8.8.8:0"}), HasSubstr("--listen: got 8.8.8.8:0: any host"));
}

TEST(ParseLaunchOptions, HostfileWithoutHosts_IsLeftToTheScript) {
  testing::TempDir dir;
  testing::WriteFile(dir.File("empty"), "# no host\n");
  for (const char* file : {"empty", "missing"}) {
    const std::vector<std::string> args = {"--hostfile", dir.File(file), "--workers", "4"};
    EXPECT_EQ(ErrorOf(args), "") << file;
    EXPECT_EQ(ParseLaunchOptions({"--hostfile", dir.File(file)}, {})->options.workers, 1) << file;
  }
}

TEST(ParseLaunchOptions, PlacesWithoutHosts_AreRefused) {
  EXPECT_EQ(ErrorOf({"--per-host", "2"}), "--per-host needs a --hostfile");
  EXPECT_EQ(ErrorOf({}, {{"GRADWIRE_NETWORK", "10.0.0.0/8"}}),
            "GRADWIRE_NETWORK needs a --hostfile");
}

TEST(ParseLaunchOptions, PerHost_CountsForEachHost) {
  testing::TempDir dir;
  testing::WriteFile(dir.File("hosts"), "a slots=2\nb\n");
  const auto parsed = ParseLaunchOptions(
      {"--hostfile", dir.File("hosts"), "--per-host", "3", "--world-size", "8"}, {});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.workers, 6);
  EXPECT_EQ(parsed->options.world_size, 8);
}

TEST(ParseLaunchOptions, CheckpointsOfASyncWithoutACoordinator_AreRefused) {
  EXPECT_EQ(ErrorOf({"--run-dir", "kept", "--", "--sync", "none"}),
            "--run-dir: got --sync none, expected a sync that averages, because the coordinator "
            "keeps checkpoints");
}

TEST(ParseLaunchOptions, FlagsOfACoordinatorThatDoesNotStart_AreRefused) {
  for (const char* flag : {"--port-file=ports", "--linger-seconds=1"}) {
    const std::string name = std::string(flag).substr(0, std::string(flag).find('='));
    EXPECT_EQ(ErrorOf({flag, "--", "--sync", "none"}),
              absl::StrCat(name,
                           ": got --sync none, expected a sync that averages, because it is an "
                           "option of the coordinator, and this run has none"));
  }
  EXPECT_EQ(ErrorOf({"--", "--sync", "none"}, {{"GRADWIRE_LINGER_SECONDS", "1"}}), "");
  EXPECT_EQ(ErrorOf({"--world-size", "1", "--summary", "s", "--", "--sync", "none"}), "");
  const std::string any = "127.0.0.1:0";
  EXPECT_EQ(ErrorOf({"--listen", any, "--metrics", any, "--", "--sync", "none"}), "");
}

TEST(ParseLaunchOptions, LinkSpeed_IsTheLaunchersAlone) {
  const auto parsed = ParseLaunchOptions({"--link-gbit", "2.5"}, {});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_DOUBLE_EQ(parsed->options.link_gbit, 2.5);
  EXPECT_EQ(parsed->options.coordinator_texts.count("link-gbit"), 0u);
}

TEST(ParseLaunchOptions, LinkSpeedZero_IsRefused) {
  EXPECT_EQ(ErrorOf({"--link-gbit", "0"}), "--link-gbit: got '0', expected a number above 0");
}

TEST(ParseLaunchOptions, WorkersZero_IsRefused) {
  EXPECT_EQ(ErrorOf({"--workers", "0"}), "--workers: got '0', expected an integer from 1 to 1024");
}

TEST(ParseLaunchOptions, WorkerOptionOnTheLeft_IsUnknown) {
  EXPECT_EQ(ErrorOf({"--batch-size", "3"}),
            "--batch-size is an option of the workers: put it after --");
  EXPECT_EQ(ErrorOf({"--batch-size=3"}),
            "--batch-size is an option of the workers: put it after --");
}

TEST(ParseLaunchOptions, OptionOfTheLauncherAlone_OnTheRight_BelongsBeforeTheDashes) {
  for (const char* argument : {"--run-dir=kept", "--run-dir"}) {
    EXPECT_EQ(ErrorOf({"--", argument, "kept"}),
              "--run-dir is an option of gradwire launch: put it before --");
  }
  EXPECT_EQ(ErrorOf({"--", "--seed=3", "--tls-ca=kept"}).find("is an option of gradwire launch"),
            std::string::npos);
}

TEST(ParseLaunchOptions, WrongWorkerOption_IsJudgedBeforeTheStart) {
  EXPECT_EQ(ErrorOf({"--", "--batchsize", "3"}),
            "unknown option --batchsize; did you mean --batch-size?");
}

TEST(ParseLaunchOptions, OptionsOfTheLauncher_AreRefusedBehindTheDashes) {
  EXPECT_EQ(ErrorOf({"--", "--rank", "1"}),
            "--rank after --: gradwire launch sets it for each worker");
  EXPECT_EQ(ErrorOf({"--", "--master-ip=h"}),
            "--master-ip after --: gradwire launch sets it for each worker");
}

TEST(ParseLaunchOptions, EachOptionThatTheLauncherSets_IsRefusedBehindTheDashes) {
  for (const char* name : {"rank", "world-size", "coordinator", "master-ip", "num-nodes",
                           "local-world-size", "token-file"}) {
    EXPECT_EQ(ErrorOf({"--", absl::StrCat("--", name, "=1")}),
              absl::StrCat("--", name, " after --: gradwire launch sets it for each worker"));
  }
}

TEST(ParseLaunchOptions, CheckpointsWithoutAFolder_AreRefused) {
  EXPECT_EQ(ErrorOf({"--checkpoint-every", "5"}),
            "--checkpoint-every: got no folder for checkpoints, expected --run-dir DIR with it");
  EXPECT_EQ(ErrorOf({}, {{"GRADWIRE_RESUME", "never"}}),
            "GRADWIRE_RESUME: got no folder for checkpoints, expected --run-dir DIR with it");
  EXPECT_EQ(ErrorOf({"--program", "/bin/sh", "--keep-checkpoints", "5"}),
            "--keep-checkpoints: got no folder for checkpoints, expected --run-dir DIR with it");
}

TEST(ParseLaunchOptions, MoreRanksThanPrograms_AreRefused) {
  EXPECT_EQ(ErrorOf({"--program", "/bin/sh", "--workers", "2", "--world-size", "4"}),
            "--program: got --world-size 4, expected 2, the same as --workers, because a program "
            "carries one rank");
}

TEST(ParseLaunchOptions, SummaryBehindTheDashes_IsSentToTheLeft) {
  EXPECT_EQ(ErrorOf({"--", "--summary", "s"}),
            "put --summary before --: launch collects the output of all ranks in one file");
}

TEST(ParseLaunchOptions, SyncNoneWithSeveralWorkers_IsRefused) {
  EXPECT_EQ(
      ErrorOf({"--workers", "2", "--", "--sync", "none"}),
      "--sync none is for a single worker, but --workers is 2; without averaging, each worker "
      "would train the same model alone");
}

TEST(ParseLaunchOptions, CertificatesOfTheWorkersAlone_AreRefused) {
  constexpr char kExpected[] =
      ": got it for the workers alone, expected it for all programs of the run: before --, or in "
      "section [launch] of the file";
  EXPECT_EQ(ErrorOf({"--", "--tls-key", "k", "--tls-cert", "c", "--tls-ca", "a"}),
            absl::StrCat("--tls-cert", kExpected));
  testing::TempDir dir;
  testing::WriteFile(dir.File("c.ini"), "[worker]\ntls-ca = a\n");
  EXPECT_EQ(ErrorOf({"--config", dir.File("c.ini")}),
            absl::StrCat("tls-ca in ", dir.File("c.ini"), kExpected));
  testing::WriteFile(dir.File("c.ini"), "[worker]\ntls-ca = a\ntls-key = k\n");
  EXPECT_EQ(ErrorOf({"--config", dir.File("c.ini")}),
            absl::StrCat("tls-key in ", dir.File("c.ini"), kExpected));
  EXPECT_EQ(ErrorOf({"--tls-cert", "c", "--", "--tls-cert", "of-this-host"}), "");
  EXPECT_EQ(ErrorOf({}, {{"GRADWIRE_TLS_CERT", "c"}}), "");
  EXPECT_EQ(ErrorOf({"--", "--sync", "none", "--tls-cert", "c"}), "");
}

TEST(ParseLaunchOptions, RankOptionsBeyondTheWorkers_AreRefused) {
  EXPECT_EQ(ErrorOf({"--workers", "2", "--rank-options", "2:--seed 1"}),
            "--rank-options: got rank 2, expected one from 0 to 1");
  EXPECT_EQ(ErrorOf({"--world-size", "2", "--rank-options", "2:--seed 1"}),
            "--rank-options: got rank 2, expected one from 0 to 1");
}

TEST(ParseLaunchOptions, LastOfSeveralRankOptionsBeyondTheWorkers_IsRefused) {
  EXPECT_EQ(ErrorOf({"--workers", "2", "--rank-options", "0:--loaders 2; 2:--loaders 2"}),
            "--rank-options: got rank 2, expected one from 0 to 1");
}

TEST(ParseLaunchOptions, WrongOptionsOfALaterRank_NameThatRank) {
  EXPECT_EQ(ErrorOf({"--workers", "2", "--rank-options", "0:--loaders 2; 1:--sed 1"}),
            "--rank-options: rank 1: unknown option --sed; did you mean --seed?");
}

TEST(ParseLaunchOptions, WrongRankOptions_NameTheRank) {
  EXPECT_EQ(ErrorOf({"--workers", "2", "--rank-options", "1:--sed 1"}),
            "--rank-options: rank 1: unknown option --sed; did you mean --seed?");
}

// A run of such ranks would be refused by the coordinator, after it has started.
TEST(ParseLaunchOptions, RankOptionsThatAllRanksMustShare_AreRefused) {
  EXPECT_EQ(ErrorOf({"--workers", "2", "--rank-options", "1:--seed 3"}),
            "--rank-options: rank 1: got --seed '3', expected '744', because all ranks must share "
            "--seed; put it after -- for all ranks");
  EXPECT_EQ(ErrorOf({"--workers", "2", "--rank-options", "1:--threads 2"}),
            "--rank-options: rank 1: got --threads '2', expected 'cores per rank, smallest of all "
            "workers', because "
            "all ranks must share --threads; put it after -- for all ranks");
  EXPECT_EQ(ErrorOf({"--workers", "2", "--rank-options", "0:--seed 4", "--", "--seed", "3"}),
            "--rank-options: rank 0: got --seed '4', expected '3', because all ranks must share "
            "--seed; put it after -- for all ranks");
}

TEST(ParseLaunchOptions, RankOptionThatChangesASharedOne_IsRefused) {
  EXPECT_THAT(ErrorOf({"--workers", "2", "--rank-options", "1:--connections 2"}),
              HasSubstr("rank 1: got --backend 'sharded', expected 'auto'"));
}

TEST(ParseLaunchOptions, RankOptionsOfTheFile_AreJudgedToo) {
  testing::TempDir dir;
  testing::WriteFile(dir.File("c.ini"), "[worker]\nlr = 3\n");
  EXPECT_THAT(ErrorOf({"--workers", "2", "--rank-options", "1:--config " + dir.File("c.ini")}),
              HasSubstr("rank 1: got --lr '3', expected '0.1'"));
}

TEST(ParseLaunchOptions, RankOptionsThatMayDiffer_AreTaken) {
  const auto parsed = ParseLaunchOptions(
      {"--workers", "2", "--rank-options", "1:--loaders 2 --print-every 0 --data-dir d --seed 744"},
      {});
  EXPECT_TRUE(parsed.ok()) << parsed.status();
}

TEST(ParseLaunchOptions, RankOptionsOfTheLauncher_AreRefused) {
  EXPECT_EQ(ErrorOf({"--workers", "2", "--rank-options", "1:--world-size 3"}),
            "--rank-options: rank 1: --world-size: gradwire launch sets it for each worker");
  EXPECT_EQ(
      ErrorOf({"--workers", "2", "--rank-options", "1:--trace t"}),
      "--rank-options: rank 1: put --trace before --: launch collects the output of all ranks "
      "in one file");
}

TEST(ParseLaunchOptions, ExampleOfHelp_IsTaken) {
  const std::string help = ParseLaunchOptions({"--help"}, {})->print;
  ASSERT_THAT(help, HasSubstr("(1:--loaders 2)"));
  const auto parsed = ParseLaunchOptions({"--workers", "2", "--rank-options", "1:--loaders 2"}, {});
  EXPECT_TRUE(parsed.ok()) << parsed.status();
}

TEST(ParseLaunchOptions, Help_IsOfTheSideItStandsOn) {
  EXPECT_THAT(ParseLaunchOptions({"--help"}, {})->print, HasSubstr("Usage: gradwire launch"));
  EXPECT_THAT(ParseLaunchOptions({"--", "--help"}, {})->print, HasSubstr("Usage: gradwire-worker"));
}

TEST(ParseLaunchOptions, ArgumentsOfAProgram_AreNotJudged) {
  const auto parsed =
      ParseLaunchOptions({"--program", "/bin/sh", "--workers", "2", "--rank-options",
                          "1:--unknown 'a b'", "--", "--rank", "--help"},
                         {});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->print, "");
  EXPECT_EQ(parsed->options.program, "/bin/sh");
  EXPECT_THAT(parsed->options.worker_args, ElementsAre("--rank", "--help"));
  EXPECT_THAT(parsed->options.rank_options, ElementsAre(Pair(1, ElementsAre("--unknown", "a b"))));
}

TEST(ParseLaunchOptions, ProgramThatCannotBeRun_IsNamed) {
  const testing::TempDir dir;
  const std::string file = dir.File("train");
  EXPECT_EQ(ErrorOf({"--program", file}),
            absl::StrCat("--program: cannot run '", file, "': No such file or directory"));
  testing::WriteFile(file, "text");
  EXPECT_EQ(ErrorOf({"--program", file}),
            absl::StrCat("--program: cannot run '", file, "': Permission denied"));
  EXPECT_EQ(ErrorOf({"--program", "/bin"}), "--program: cannot run '/bin': Is a directory");
}

TEST(ParseLaunchOptions, OptionsOfOurWorkersWithAProgram_AreRefused) {
  constexpr char kWhy[] =
      " with --program: it needs the files that gradwire-worker writes at its end";
  EXPECT_EQ(ErrorOf({"--program", "/bin/sh", "--summary", "s"}), absl::StrCat("--summary", kWhy));
  EXPECT_EQ(ErrorOf({"--program", "/bin/sh", "--link-gbit", "1"}),
            absl::StrCat("--link-gbit", kWhy));
  EXPECT_EQ(ErrorOf({"--program", "/bin/sh"}, {{"GRADWIRE_TRACE", "t"}}),
            absl::StrCat("GRADWIRE_TRACE", kWhy));
}

TEST(ParseLaunchOptions, RankOptionsBeyondThePrograms_AreRefused) {
  EXPECT_EQ(ErrorOf({"--program", "/bin/sh", "--rank-options", "1:x"}),
            "--rank-options: got rank 1, expected one from 0 to 0");
}

TEST(ParseRankOptions, SeveralRanks_AreTakenApart) {
  EXPECT_THAT(
      *ParseRankOptions("1: --seed 3; 2:--data-dir 'a b'"),
      ElementsAre(Pair(1, ElementsAre("--seed", "3")), Pair(2, ElementsAre("--data-dir", "a b"))));
}

TEST(ParseRankOptions, RankThatIsNamedTwice_HasAllItsOptions) {
  EXPECT_THAT(*ParseRankOptions("1:--loaders 2; 2:--data-dir d; 1:--print-every 0"),
              ElementsAre(Pair(1, ElementsAre("--loaders", "2", "--print-every", "0")),
                          Pair(2, ElementsAre("--data-dir", "d"))));
}

TEST(ParseRankOptions, NoRank_IsRefused) {
  EXPECT_EQ(ParseRankOptions("--seed 3").status().message(),
            "got '--seed 3', expected RANK:OPTIONS, such as 1:--loaders 2");
}

TEST(MembersEnvironment, WhatTheLauncherDecides_IsTakenAway) {
  EXPECT_THAT(
      MembersEnvironment({{"HOME", "/h"},
                          {"GRADWIRE_LR", "1"},
                          {"GRADWIRE_RANK", "9"},
                          {"GRADWIRE_LISTEN", "x:1"},
                          {"GRADWIRE_PROGRAM", "/bin/sh"},
                          {"GRADWIRE_CONFIG", "old"}},
                         "new"),
      ElementsAre(Pair("GRADWIRE_CONFIG", "new"), Pair("GRADWIRE_LR", "1"), Pair("HOME", "/h")));
}

TEST(MembersEnvironment, EachVariableThatIsForTheLauncherAlone_IsTakenAway) {
  Environment environment;
  for (const char* option : {"rank", "world-size", "coordinator", "master-ip", "num-nodes",
                             "local-world-size", "token-file", "listen", "metrics", "summary",
                             "trace", "config", "program", "hostfile", "per-host", "network"}) {
    environment[VariableOf(option)] = "1";
  }
  EXPECT_THAT(MembersEnvironment(environment, ""), ::testing::IsEmpty());
}

}  // namespace
}  // namespace gradwire
