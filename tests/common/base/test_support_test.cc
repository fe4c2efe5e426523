// The helpers that integration tests lean on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <memory>
#include <string>

#include "tests/support/cifar_files.h"
#include "tests/support/process.h"
#include "tests/support/sockets.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kSoon = absl::Seconds(20);

std::unique_ptr<Process> Shell(const std::string& script, const Environment& env = {}) {
  return Process::Start("/bin/sh", {"-c", script}, env);
}

TEST(ReadFile, Unreadable_Empty) { EXPECT_EQ(ReadFile("/"), ""); }

TEST(Process, Wait_ProgramExits_GivesCodeAndBothOutputs) {
  const auto shell = Shell("echo data; echo log >&2; exit 7");
  EXPECT_EQ(*shell->Wait(kSoon), 7);
  EXPECT_EQ(shell->out(), "data\n");
  EXPECT_EQ(shell->err(), "log\n");
}

TEST(Process, Wait_KilledBySignal_Gives128PlusSignal) {
  const auto shell = Shell("kill -9 $$");
  EXPECT_EQ(*shell->Wait(kSoon), 128 + SIGKILL);
}

TEST(Process, Wait_StillRunning_IsDeadlineExceededWithOutput) {
  const auto shell = Shell("echo begun; exec sleep 60");
  ASSERT_TRUE(shell->WaitForOutput("begun", kSoon).ok());
  const auto code = shell->Wait(absl::Milliseconds(1));
  EXPECT_EQ(code.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(code.status().message()), HasSubstr("begun"));
}

TEST(Process, Signal_Running_ReachesIt) {
  const auto shell = Shell("trap 'exit 5' TERM; echo begun; while :; do sleep 0.01; done");
  ASSERT_TRUE(shell->WaitForOutput("begun", kSoon).ok());
  shell->Signal(SIGTERM);
  EXPECT_EQ(*shell->Wait(kSoon), 5);
}

TEST(Process, WaitForOutput_EndsWithoutText_IsFailedPrecondition) {
  const auto shell = Shell("echo other");
  EXPECT_EQ(shell->WaitForOutput("wanted", kSoon).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Process, Start_ExtraVariable_IsInItsEnvironment) {
  const auto shell = Shell("echo $GRADWIRE_SYNC", {{"GRADWIRE_SYNC", "none"}});
  EXPECT_EQ(*shell->Wait(kSoon), 0);
  EXPECT_EQ(shell->out(), "none\n");
}

TEST(Process, Children_ParentIsGone_AreStillFound) {
  const auto shell = Shell("sleep 60 >/dev/null 2>&1 & exit 0");
  EXPECT_EQ(*shell->Wait(kSoon), 0);
  EXPECT_THAT(shell->Children(), SizeIs(1));
}

TEST(Process, Destructor_ChildrenRun_KillsThem) {
  auto shell = Shell("sleep 60 >/dev/null 2>&1 & echo $!");
  ASSERT_EQ(*shell->Wait(kSoon), 0);
  const pid_t child = std::stoi(shell->out());
  shell.reset();
  EXPECT_FALSE(IsRunning(child));
}

TEST(TempDir, Destructor_HoldsFiles_RemovesThem) {
  std::string path;
  {
    const TempDir dir;
    path = dir.path();
    WriteFile(dir.File("a"), "text");
    EXPECT_EQ(ReadFile(dir.File("a")), "text");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(HttpGet, NothingListens_IsUnavailable) {
  EXPECT_EQ(HttpGet(UnusedAddress(), "/").status().code(), absl::StatusCode::kUnavailable);
}

TEST(Exchange, PeerStaysSilent_IsDeadlineExceeded) {
  const BusyPort silent;
  EXPECT_EQ(Exchange(silent.address(), "", false, absl::Milliseconds(20)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(WriteCifarFiles, TwelveRecords_HasPublishedSizesAndLabels) {
  const TempDir dir;
  WriteCifarFiles(dir.path(), 12);
  const std::string batch = ReadFile(dir.File("data_batch_5.bin"));
  ASSERT_EQ(batch.size(), 12u * 3073u);
  EXPECT_EQ(batch[11 * 3073], 1);
  EXPECT_EQ(ReadFile(dir.File("test_batch.bin")).size(), batch.size());
}

}  // namespace
}  // namespace gradwire::testing
