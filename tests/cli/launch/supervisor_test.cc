#include "cli/launch/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/terminal/terminal.h"
#include "common/base/clock.h"

namespace gradwire {
namespace {

class SupervisorTest : public ::testing::Test {
 protected:
  static Member Shell(const std::string& name, const std::string& script, bool serves) {
    Member member;
    member.name = name;
    member.command.argv = {"/bin/sh", "-c", script};
    member.command.environment = CurrentEnvironment();
    member.serves = serves;
    return member;
  }

  ~SupervisorTest() override { std::filesystem::remove(file_); }

  const std::string file_ = absl::StrCat(::testing::TempDir(), "/supervisor_test.", getpid());
  Terminal terminal_{STDOUT_FILENO, STDERR_FILENO, false};
  Supervisor supervisor_{&terminal_};
};

TEST_F(SupervisorTest, Run_ServerEndedBeforeWorkersStarted_LeavesWorkersTheirTime) {
  ASSERT_TRUE(supervisor_.Start(Shell("server", "exit 0", true)).ok());
  EXPECT_FALSE(supervisor_.RunUntil([] { return false; }, absl::Seconds(60)));
  // Longer than it takes to wind up, which must not have begun.
  ASSERT_TRUE(
      supervisor_.Start(Shell("worker", "trap 'exit 9' TERM; sleep 2.5 & wait", false)).ok());
  const absl::Time start = SteadyNow();
  EXPECT_EQ(supervisor_.Run(), 0);
  EXPECT_GE(SteadyNow() - start, absl::Milliseconds(2400));
}

TEST_F(SupervisorTest, RunUntil_NothingRuns_IsFalse) {
  EXPECT_FALSE(supervisor_.RunUntil([] { return false; }, absl::Seconds(60)));
}

TEST_F(SupervisorTest, RunUntil_Timeout_IsFalse) {
  ASSERT_TRUE(supervisor_.Start(Shell("worker", "exec sleep 1000", false)).ok());
  EXPECT_FALSE(supervisor_.RunUntil([] { return false; }, absl::Milliseconds(20)));
}

TEST_F(SupervisorTest, Run_Nothing_IsWell) {
  EXPECT_EQ(supervisor_.Run(), 0);
  EXPECT_EQ(supervisor_.cause(), "");
}

TEST_F(SupervisorTest, Fail_OthersRun_EndsThemWithItsCode) {
  ASSERT_TRUE(supervisor_.Start(Shell("worker", "exec sleep 1000", false)).ok());
  supervisor_.Fail(75, "no address");
  EXPECT_EQ(supervisor_.Run(), 75);
  EXPECT_EQ(supervisor_.cause(), "no address");
}

TEST_F(SupervisorTest, Run_WorkerFailed_LeavesALingeringServerItsTime) {
  // Longer than a server that does not linger is let live.
  Member server = Shell("server", absl::StrCat("sleep 2.5; echo done >", file_), true);
  server.linger = absl::Hours(1);
  ASSERT_TRUE(supervisor_.Start(server).ok());
  ASSERT_TRUE(supervisor_.Start(Shell("worker", "exit 3", false)).ok());
  EXPECT_EQ(supervisor_.Run(), 3);
  EXPECT_TRUE(std::filesystem::exists(file_));
}

TEST_F(SupervisorTest, Run_SignalWhileTheServerLingers_IsWell) {
  // The server interrupts this process as soon as the worker is no more.
  Member server = Shell("server",
                        absl::StrCat("until [ -s ", file_, " ] && ! kill -0 $(cat ", file_,
                                     ") 2>/dev/null; do sleep 0.05; done; kill -INT $PPID; "
                                     "exec sleep 1000"),
                        true);
  server.linger = absl::Hours(1);
  ASSERT_TRUE(supervisor_.Start(server).ok());
  ASSERT_TRUE(supervisor_.Start(Shell("worker", absl::StrCat("echo $$ >", file_), false)).ok());
  EXPECT_EQ(supervisor_.Run(), 0);
  EXPECT_EQ(supervisor_.cause(), "");
}

}  // namespace
}  // namespace gradwire
