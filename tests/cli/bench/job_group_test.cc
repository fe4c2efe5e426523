#include "cli/bench/job_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "cli/bench/cpu_sampler.h"
#include "cli/bench/hosts.h"
#include "common/base/clock.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(60);

bool Never() { return false; }

Job Shell(const std::string& name, const std::string& script, bool serves = false) {
  return {name, {{"/bin/sh", "-c", script}, {{"PATH", "/usr/bin:/bin"}}}, serves};
}

absl::StatusOr<std::vector<std::string>> RunAll(const std::vector<Job>& jobs,
                                                absl::Duration timeout = kLong) {
  JobGroup group(Never);
  for (const Job& job : jobs) {
    if (absl::Status status = group.Start(job); !status.ok()) return status;
  }
  return group.Finish(SteadyNow() + timeout);
}

TEST(JobGroup, AllEndWell_GivesTheirOutputInOrder) {
  const auto outputs = RunAll({Shell("a", "echo one"), Shell("b", "echo two")});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(*outputs, ElementsAre("one\n", "two\n"));
}

TEST(JobGroup, MuchOutput_IsAllKept) {
  const auto outputs = RunAll({Shell("a", "head -c 1000000 /dev/zero")});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(outputs->front().size(), 1000000u);
}

TEST(JobGroup, Server_IsEndedAfterTheOthers) {
  const auto outputs = RunAll({Shell("server", "exec sleep 1000", true), Shell("a", "echo one")});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(*outputs, ElementsAre("one\n"));
}

TEST(JobGroup, OneFails_SaysHowAndWhy) {
  const auto outputs =
      RunAll({Shell("rank 0", "exec sleep 1000"), Shell("rank 1", "echo broken >&2; exit 3")});
  EXPECT_EQ(outputs.status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(outputs.status().message(), "rank 1 ended with exit code 3:\n  broken");
}

TEST(JobGroup, ServerFails_IsAnError) {
  const auto outputs = RunAll({Shell("server", "exit 1", true), Shell("a", "exec sleep 1000")});
  EXPECT_THAT(std::string(outputs.status().message()), HasSubstr("server ended with exit code 1"));
}

TEST(JobGroup, TooSlow_NamesWhoRuns) {
  const auto outputs =
      RunAll({Shell("rank 0", ""), Shell("rank 1", "exec sleep 1000")}, absl::Milliseconds(300));
  EXPECT_EQ(outputs.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(outputs.status().message(), "not done in time: rank 1 still running");
}

TEST(JobGroup, Stopped_IsCancelled) {
  JobGroup group([] { return true; });
  ASSERT_TRUE(group.Start(Shell("a", "exec sleep 1000")).ok());
  EXPECT_EQ(group.Finish(SteadyNow() + kLong).status().code(), absl::StatusCode::kCancelled);
}

TEST(JobGroup, Destroyed_LeavesNothingRunning) {
  pid_t pid;
  {
    JobGroup group(Never);
    ASSERT_TRUE(group.Start(Shell("a", "exec sleep 1000")).ok());
    pid = group.pid(0);
    ASSERT_TRUE(testing::IsRunning(pid));
  }
  EXPECT_FALSE(testing::IsRunning(pid));
}

TEST(RunJob, NoSuchProgram_IsNotFound) {
  const auto output = RunJob({"x", {{"/no/such/program"}, {}}}, kLong, Never);
  EXPECT_EQ(output.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(output.status().message()), HasSubstr("/no/such/program"));
}

TEST(CpuTicks, LineOfTheProgram_AddsUserAndSystem) {
  const std::string stat = "12 (gradwire-coordi) S 1 2 3 4 5 6 7 8 9 10 700 30 0 0 20 0";
  EXPECT_EQ(CpuTicks(stat, "gradwire-coordinator"), 730);
}

TEST(CpuTicks, AnotherProgram_IsNone) {
  EXPECT_FALSE(CpuTicks("12 (ip) S 1 2 3 4 5 6 7 8 9 10 700 30 0", "gradwire-x").has_value());
  EXPECT_FALSE(CpuTicks("", "gradwire-x").has_value());
}

TEST(CpuSampler, ThisProcess_HasATime) {
  CpuSampler cpu("cli_tests");
  EXPECT_FALSE(cpu.seconds().has_value());
  cpu.Sample(getpid());
  ASSERT_TRUE(cpu.seconds().has_value());
  EXPECT_GE(*cpu.seconds(), 0);
}

// A program that says what it was asked, in a file of its own.
class HostsTest : public ::testing::Test {
 protected:
  HostsTest() {
    testing::WriteFile(program_, "#!/bin/sh\necho \"$*\" >> " + log_ +
                                     "\n[ \"$1\" = addr ] && echo \"10.0.0.$2\"\nexit 0\n");
    std::filesystem::permissions(program_, std::filesystem::perms::owner_all);
  }

  testing::TempDir dir_;
  const std::string program_ = dir_.File("hosts");
  const std::string log_ = dir_.File("log");
};

TEST_F(HostsTest, Program_MakesAsksAndRemoves) {
  {
    Hosts hosts(program_, {{"PATH", "/bin"}, {"GRADWIRE_RANK", "3"}}, Never);
    ASSERT_TRUE(hosts.Up(2, "1gbit").ok());
    EXPECT_EQ(hosts.address(1), "10.0.0.1");
    const Command command = hosts.On(1, {"prog", "arg"});
    EXPECT_THAT(command.argv, ElementsAre(program_, "run", "1", "prog", "arg"));
    EXPECT_EQ(command.environment.count("GRADWIRE_RANK"), 0u);
  }
  EXPECT_EQ(testing::ReadFile(log_), "up 2 1gbit\naddr 0\naddr 1\ndown\n");
}

TEST_F(HostsTest, ProgramFails_SaysWhy) {
  testing::WriteFile(program_, "#!/bin/sh\necho not root >&2\nexit 1\n");
  Hosts hosts(program_, {}, Never);
  EXPECT_THAT(std::string(hosts.Up(2, "none").message()),
              HasSubstr("up ended with exit code 1:\n  not root"));
}

TEST_F(HostsTest, NoProgram_IsThisMachine) {
  Hosts hosts("", {}, Never);
  ASSERT_TRUE(hosts.Up(3, "none").ok());
  EXPECT_TRUE(hosts.local());
  EXPECT_EQ(hosts.address(2), "127.0.0.1");
  EXPECT_THAT(hosts.On(2, {"prog"}).argv, ElementsAre("prog"));
}

}  // namespace
}  // namespace gradwire
