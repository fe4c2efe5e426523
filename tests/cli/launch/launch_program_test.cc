// The program `gradwire`, beside programs that pretend to be a coordinator and
// workers: shell scripts that do what a test wants.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr absl::Duration kLong = absl::Seconds(60);

// Writes its port file and is done: nobody needs it.
constexpr char kCoordinator[] = R"(#!/bin/sh
while [ $# -gt 0 ]; do
  [ "$1" = --port-file ] && file=$2
  shift
done
printf 'grpc=127.0.0.1:7\nmetrics=127.0.0.1:8\n' > "$file.tmp"
mv "$file.tmp" "$file"
echo listening >&2
)";

// As one that goes on serving: what a coordinator does while workers run.
std::string ServingCoordinator() { return absl::StrCat(kCoordinator, "exec sleep 1000\n"); }

// Ends well and leaves a summary.
constexpr char kGoodWorker[] = R"(#!/bin/sh
echo "$GRADWIRE_RANK of $GRADWIRE_WORLD_SIZE at $GRADWIRE_COORDINATOR: $*"
echo "a warning" >&2
printf '{"rank": %s}' "$GRADWIRE_RANK" > "${GRADWIRE_SUMMARY%%"{rank}"*}$GRADWIRE_RANK.json"
)";

// Rank 1 does `body`; the others wait.
std::string OthersWait(const std::string& body) {
  return absl::StrCat("#!/bin/sh\nif [ $GRADWIRE_RANK = 1 ]; then\n", body,
                      "\nfi\necho waiting\nexec sleep 1000\n");
}

class LaunchProgramTest : public ::testing::Test {
 protected:
  LaunchProgramTest() {
    fs::create_directory(scratch());
    fs::copy_file(testing::ProgramPath("gradwire"), dir_.File("gradwire"));
    fs::create_directory_symlink(testing::ProgramPath("../libexec/gradwire/cli"), dir_.File("cli"));
    WriteProgram("gradwire-coordinator", kCoordinator);
    WriteProgram("gradwire-worker", kGoodWorker);
  }

  std::string scratch() const { return dir_.File("tmp"); }

  void WriteProgram(const std::string& name, const std::string& text) {
    testing::WriteFile(dir_.File(name), text);
    fs::permissions(dir_.File(name), fs::perms::owner_all);
  }

  std::unique_ptr<testing::Process> Start(std::vector<std::string> args) {
    args.insert(args.begin(), "launch");
    return testing::Process::Start(dir_.File("gradwire"), args, {{"TMPDIR", scratch()}});
  }

  // Waits until every one of `ranks` workers has said "waiting".
  void AwaitWaiting(const testing::Process& launch, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string line = absl::StrCat("[rank ", rank, "] waiting");
      ASSERT_TRUE(const_cast<testing::Process&>(launch).WaitForOutput(line, kLong).ok());
    }
  }

  void ExpectNothingLeft(const testing::Process& launch) {
    EXPECT_THAT(launch.Children(), IsEmpty());
    EXPECT_TRUE(fs::is_empty(scratch()));
  }

  testing::TempDir dir_;
};

TEST_F(LaunchProgramTest, Run_AllEndWell_ExitsWithZero) {
  const auto launch = Start({"--workers", "2", "--", "--lr", "1"});
  EXPECT_EQ(*launch->Wait(kLong), 0);
  const std::vector<std::string> out = absl::StrSplit(launch->out(), '\n');
  EXPECT_THAT(out, Contains("[rank 0] 0 of 2 at 127.0.0.1:7: --lr 1"));
  EXPECT_THAT(out, Contains("[rank 1] 1 of 2 at 127.0.0.1:7: --lr 1"));
  EXPECT_THAT(launch->out(), HasSubstr("    rank  iteration ms"));
  ExpectNothingLeft(*launch);
}

TEST_F(LaunchProgramTest, Run_CoordinatorGoesOnServing_IsEndedAfterTheWorkers) {
  WriteProgram("gradwire-coordinator", ServingCoordinator());
  const auto launch = Start({"--workers", "2"});
  EXPECT_EQ(*launch->Wait(kLong), 0);
  ExpectNothingLeft(*launch);
}

TEST_F(LaunchProgramTest, Run_Streams_StayApart) {
  const auto launch = Start({});
  EXPECT_EQ(*launch->Wait(kLong), 0);
  EXPECT_THAT(launch->err(), HasSubstr("[coordinator] listening\n"));
  EXPECT_THAT(launch->err(), HasSubstr("[rank 0] a warning\n"));
  EXPECT_THAT(
      launch->err(),
      HasSubstr(
          "watch the run on http://127.0.0.1:8/; metrics are on http://127.0.0.1:8/metrics\n"));
  EXPECT_THAT(launch->out(), Not(HasSubstr("warning")));
}

TEST_F(LaunchProgramTest, Run_NoTerminal_HasNoBar) {
  WriteProgram("gradwire-worker",
               absl::StrCat(kGoodWorker, "echo \"progress=$GRADWIRE_PROGRESS.\"\n"));
  const auto launch = Start({});
  EXPECT_EQ(*launch->Wait(kLong), 0);
  EXPECT_THAT(launch->out(), HasSubstr("[rank 0] progress=.\n"));
}

TEST_F(LaunchProgramTest, Run_LastLineWithoutEnd_IsPrinted) {
  WriteProgram("gradwire-worker", absl::StrCat(kGoodWorker, "printf 'the end'\n"));
  const auto launch = Start({});
  EXPECT_EQ(*launch->Wait(kLong), 0);
  EXPECT_THAT(launch->out(), HasSubstr("[rank 0] the end\n"));
}

TEST_F(LaunchProgramTest, Run_ManyLines_NeverMix) {
  WriteProgram("gradwire-worker",
               absl::StrCat(kGoodWorker,
                            "i=0; while [ $i -lt 2000 ]; do echo $GRADWIRE_RANK-abcdefgh; "
                            "i=$((i+1)); done\n"));
  const auto launch = Start({"--workers", "3"});
  EXPECT_EQ(*launch->Wait(kLong), 0);
  const std::vector<std::string> out = absl::StrSplit(launch->out(), '\n');
  for (const std::string rank : {"0", "1", "2"}) {
    EXPECT_EQ(std::count(out.begin(), out.end(), "[rank " + rank + "] " + rank + "-abcdefgh"),
              2000);
  }
}

TEST_F(LaunchProgramTest, Run_Summary_HoldsAllRanks) {
  const auto launch = Start({"--workers", "2", "--summary", dir_.File("all.json")});
  EXPECT_EQ(*launch->Wait(kLong), 0);
  EXPECT_EQ(nlohmann::json::parse(testing::ReadFile(dir_.File("all.json"))).dump(),
            R"({"coordinator":null,"ranks":[{"rank":0},{"rank":1}]})");
}

TEST_F(LaunchProgramTest, Run_SummaryCannotBeWritten_IsSaidBeforeTheStart) {
  const auto launch = Start({"--summary", dir_.File("no/all.json")});
  EXPECT_EQ(*launch->Wait(kLong), 2);
  EXPECT_THAT(launch->err(), HasSubstr("--summary: cannot write " + dir_.File("no/all.json")));
  EXPECT_THAT(launch->err(), Not(HasSubstr("listening")));
}

TEST_F(LaunchProgramTest, Run_WorkerLeavesNoSummary_Fails) {
  WriteProgram("gradwire-worker", "#!/bin/sh\n");
  const auto launch = Start({});
  EXPECT_EQ(*launch->Wait(kLong), 1);
  EXPECT_THAT(launch->err(), HasSubstr("gradwire launch: no summary of rank 0\n"));
}

TEST_F(LaunchProgramTest, Run_SyncNone_StartsNoCoordinator) {
  const auto launch = Start({"--", "--sync", "none"});
  EXPECT_EQ(*launch->Wait(kLong), 0);
  EXPECT_THAT(launch->err(), Not(HasSubstr("listening")));
  EXPECT_THAT(launch->out(), HasSubstr("[rank 0] 0 of 1 at : --sync none"));
}

TEST_F(LaunchProgramTest, Run_WrongWorkerOption_StartsNothing) {
  const auto launch = Start({"--", "--batchsize", "3"});
  EXPECT_EQ(*launch->Wait(kLong), 2);
  EXPECT_EQ(launch->out(), "");
  EXPECT_EQ(launch->err(),
            "gradwire launch: unknown option --batchsize; did you mean --batch-size?\n"
            "Try 'gradwire launch --help' for the options.\n");
}

TEST_F(LaunchProgramTest, Run_OneWorkerFails_EndsAllWithItsCode) {
  WriteProgram("gradwire-coordinator", ServingCoordinator());
  WriteProgram("gradwire-worker", OthersWait("exit 3"));
  const auto launch = Start({"--workers", "3"});
  EXPECT_EQ(*launch->Wait(kLong), 3);
  EXPECT_THAT(
      launch->err(),
      ContainsRegex("gradwire launch: rank 1 \\(process [0-9]+\\) ended with exit code 3; all "
                    "have ended\n$"));
  ExpectNothingLeft(*launch);
}

TEST_F(LaunchProgramTest, Run_OneWorkerIsKilled_NamesTheSignal) {
  WriteProgram("gradwire-coordinator", ServingCoordinator());
  WriteProgram("gradwire-worker", OthersWait("kill -9 $$"));
  const auto launch = Start({"--workers", "2"});
  EXPECT_EQ(*launch->Wait(kLong), 128 + SIGKILL);
  EXPECT_THAT(launch->err(),
              ContainsRegex("gradwire launch: rank 1 \\(process [0-9]+\\) was killed by signal 9 "
                            "\\(Killed\\); all have ended"));
  ExpectNothingLeft(*launch);
}

TEST_F(LaunchProgramTest, Run_OneFailsAndAnotherIgnoresSigterm_KillsIt) {
  WriteProgram("gradwire-worker", OthersWait("exit 3").insert(10, "trap '' TERM\n"));
  const absl::Time start = SteadyNow();
  const auto launch = Start({"--workers", "2"});
  EXPECT_EQ(*launch->Wait(kLong), 3);
  EXPECT_LT(SteadyNow() - start, absl::Seconds(10));
  ExpectNothingLeft(*launch);
}

TEST_F(LaunchProgramTest, Run_CoordinatorFails_EndsAllWithItsCode) {
  WriteProgram("gradwire-coordinator", "#!/bin/sh\necho 'port in use' >&2\nexit 1\n");
  const auto launch = Start({"--workers", "2"});
  EXPECT_EQ(*launch->Wait(kLong), 1);
  EXPECT_THAT(launch->err(), HasSubstr("[coordinator] port in use\n"));
  EXPECT_THAT(launch->err(),
              ContainsRegex("coordinator \\(process [0-9]+\\) ended with exit code 1;"));
  EXPECT_THAT(launch->out(), Not(HasSubstr("[rank")));
  ExpectNothingLeft(*launch);
}

TEST_F(LaunchProgramTest, Run_ProgramIsMissing_NamesIt) {
  fs::remove(dir_.File("gradwire-worker"));
  const auto launch = Start({});
  EXPECT_NE(*launch->Wait(kLong), 0);
  EXPECT_THAT(launch->err(), HasSubstr("cannot start '" + dir_.File("gradwire-worker") +
                                       "': No such file or directory"));
  ExpectNothingLeft(*launch);
}

TEST_F(LaunchProgramTest, Program_AllEndWell_ExitsWithZero) {
  WriteProgram("gradwire-coordinator", ServingCoordinator());
  WriteProgram("train",
               "#!/bin/sh\necho \"$LOCAL_RANK of $WORLD_SIZE at $MASTER_ADDR, "
               "$MASTER_PORT: $*\"\n");
  const auto launch =
      Start({"--workers", "2", "--program", dir_.File("train"), "--", "--lr", "a b"});
  EXPECT_EQ(*launch->Wait(kLong), 0);
  const std::vector<std::string> out = absl::StrSplit(launch->out(), '\n');
  EXPECT_THAT(out,
              ::testing::UnorderedElementsAre("[rank 0] 0 of 2 at 127.0.0.1, 7: --lr a b",
                                              "[rank 1] 1 of 2 at 127.0.0.1, 7: --lr a b", ""));
  ExpectNothingLeft(*launch);
}

TEST_F(LaunchProgramTest, Program_OneFails_EndsAllWithItsCode) {
  WriteProgram("gradwire-coordinator", ServingCoordinator());
  WriteProgram("train", OthersWait("exit 3"));
  const auto launch = Start({"--workers", "3", "--program", dir_.File("train")});
  EXPECT_EQ(*launch->Wait(kLong), 3);
  EXPECT_THAT(
      launch->err(),
      ContainsRegex("gradwire launch: rank 1 \\(process [0-9]+\\) ended with exit code 3; all "
                    "have ended\n"));
  ExpectNothingLeft(*launch);
}

TEST_F(LaunchProgramTest, Program_CannotBeRun_StartsNothing) {
  const auto launch = Start({"--program", dir_.File("train")});
  EXPECT_EQ(*launch->Wait(kLong), 2);
  EXPECT_THAT(launch->err(), HasSubstr("--program: cannot run '" + dir_.File("train") + "'"));
  EXPECT_THAT(launch->err(), Not(HasSubstr("listening")));
}

TEST_F(LaunchProgramTest, Signal_Interrupt_EndsAllWithin2Seconds) {
  WriteProgram("gradwire-coordinator", ServingCoordinator());
  WriteProgram("gradwire-worker", OthersWait(":"));
  const auto launch = Start({"--workers", "2"});
  AwaitWaiting(*launch, 2);
  const absl::Time start = SteadyNow();
  launch->Signal(SIGINT);
  EXPECT_EQ(*launch->Wait(kLong), 128 + SIGINT);
  EXPECT_LT(SteadyNow() - start, absl::Seconds(2));
  EXPECT_THAT(launch->err(), HasSubstr("stopped by signal 2 (Interrupt); all have ended"));
  ExpectNothingLeft(*launch);
}

TEST_F(LaunchProgramTest, Signal_TerminateIgnoredByAWorker_KillsItWithin2Seconds) {
  WriteProgram("gradwire-coordinator", ServingCoordinator());
  WriteProgram("gradwire-worker", OthersWait(":").insert(10, "trap '' TERM\n"));
  const auto launch = Start({"--workers", "2"});
  AwaitWaiting(*launch, 2);
  const absl::Time start = SteadyNow();
  launch->Signal(SIGTERM);
  EXPECT_EQ(*launch->Wait(kLong), 128 + SIGTERM);
  EXPECT_LT(SteadyNow() - start, absl::Milliseconds(2500));
  ExpectNothingLeft(*launch);
}

TEST_F(LaunchProgramTest, Signal_Kill_LeavesNoOrphans) {
  WriteProgram("gradwire-coordinator", ServingCoordinator());
  WriteProgram("gradwire-worker", "#!/bin/sh\necho waiting\nsleep 1000 &\nwait\n");
  const auto launch = Start({"--workers", "2"});
  AwaitWaiting(*launch, 2);
  // A process that is just becoming another program shows no environment: it is not counted then.
  const absl::Time started = SteadyNow() + kLong;
  constexpr size_t kGuardCoordinatorWorkersAndTheirs = 1 + 1 + 2 + 2;
  std::vector<pid_t> children;
  while (children.size() != kGuardCoordinatorWorkersAndTheirs && SteadyNow() < started) {
    children = launch->Children();
  }
  ASSERT_EQ(children.size(), kGuardCoordinatorWorkersAndTheirs);
  launch->Signal(SIGKILL);
  // Its output is closed once all that hold it have ended.
  EXPECT_EQ(*launch->Wait(kLong), 128 + SIGKILL);
  const absl::Time deadline = SteadyNow() + kLong;
  while (!launch->Children().empty() && SteadyNow() < deadline) {
  }
  EXPECT_THAT(launch->Children(), IsEmpty());
}

TEST(GradwireProgram, UnknownCommand_NamesTheNearest) {
  const auto program = testing::Process::Start("gradwire", {"lunch"});
  EXPECT_EQ(*program->Wait(kLong), 2);
  EXPECT_THAT(program->err(),
              HasSubstr("gradwire: unknown command lunch, expected one of launch, "));
  EXPECT_THAT(program->err(), HasSubstr("; did you mean launch?\n"));
}

TEST(GradwireProgram, Help_ListsTheCommands) {
  const auto program = testing::Process::Start("gradwire", {"--help"});
  EXPECT_EQ(*program->Wait(kLong), 0);
  EXPECT_THAT(program->out(), HasSubstr("  launch "));
  EXPECT_THAT(program->out(), HasSubstr("  env "));
}

TEST(GradwireProgram, NoCommand_IsAUsageError) {
  const auto program = testing::Process::Start("gradwire", {});
  EXPECT_EQ(*program->Wait(kLong), 2);
  EXPECT_EQ(program->out(), "");
  EXPECT_EQ(program->err(),
            "gradwire: got no command, expected one of launch, bench, models, experiment, plan, "
            "trace, status, checkpoint, report, ledger, doctor, env\n"
            "Try 'gradwire --help' for the options.\n");
}

TEST(GradwireProgram, NoMeasurement_ListsThem) {
  const auto program = testing::Process::Start("gradwire", {"bench"});
  EXPECT_EQ(*program->Wait(kLong), 2);
  EXPECT_THAT(program->err(),
              HasSubstr("gradwire bench: got no measurement, expected one of collectives, "
                        "training\n"));
}

TEST(GradwireProgram, MisspeltOption_NamesTheNearest) {
  const auto program = testing::Process::Start("gradwire", {"--verzion"});
  EXPECT_EQ(*program->Wait(kLong), 2);
  EXPECT_THAT(program->err(), HasSubstr("unknown option --verzion"));
  EXPECT_THAT(program->err(), HasSubstr("did you mean --version?\n"));
}

TEST(GradwireProgram, Env_PrintsSources) {
  const auto program =
      testing::Process::Start("gradwire", {"env", "--json"}, {{"GRADWIRE_RANK", "1"}});
  EXPECT_EQ(*program->Wait(kLong), 0);
  const auto json = nlohmann::json::parse(program->out());
  EXPECT_EQ(json["rank"]["source"], "GRADWIRE_RANK");
}

TEST(GradwireProgram, EnvOnReferenceBlas_WarnsAndNamesThePackage) {
  const auto program = testing::Process::Start(
      "gradwire", {"env"}, {{"LD_LIBRARY_PATH", "/usr/lib/" GRADWIRE_ARCHITECTURE "/blas"}});
  EXPECT_EQ(*program->Wait(kLong), 0);
  EXPECT_THAT(program->out(), HasSubstr("reference BLAS"));
  EXPECT_THAT(program->err(), HasSubstr("apt-get install libopenblas0-openmp"));
}

}  // namespace
}  // namespace gradwire
