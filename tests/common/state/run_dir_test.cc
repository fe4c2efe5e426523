#include "common/state/run_dir.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "common/base/status_util.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;
using testing::WriteFile;

TEST(CheckpointName, ThereAndBack) {
  for (const int64_t step : {int64_t{0}, int64_t{1200}, int64_t{999999999999}, int64_t{1} << 60}) {
    EXPECT_EQ(ParseCheckpointName(CheckpointName(step)), step);
  }
  EXPECT_EQ(CheckpointName(1200), "step-000000001200");
}

TEST(CheckpointName, OtherNames_AreNone) {
  for (const char* name :
       {"", "step-", "step-1200", "step-00000000120x", "step-000000001200.tmp", "Step-000000001200",
        "step-0000000001200", "step--00000000001", "step-99999999999999999999"}) {
    EXPECT_FALSE(ParseCheckpointName(name).has_value()) << name;
  }
}

TEST(RunDirLock, SecondHolder_ComesAgainLater) {
  const TempDir dir;
  const std::string run_dir = dir.File("run");
  auto lock = RunDirLock::Take(run_dir);
  ASSERT_TRUE(lock.ok()) << lock.status();
  const absl::Status second = RunDirLock::Take(run_dir).status();
  EXPECT_EQ(ExitCode(second), kExitTryAgain);
  EXPECT_THAT(std::string(second.message()), HasSubstr("another coordinator uses it"));
  lock = absl::CancelledError();
  EXPECT_TRUE(RunDirLock::Take(run_dir).ok());
}

TEST(RunDirLock, NoDirectory_IsAWrongOption) {
  const TempDir dir;
  WriteFile(dir.File("file"), "");
  EXPECT_EQ(ExitCode(RunDirLock::Take(dir.File("file")).status()), kExitUsage);
  EXPECT_EQ(ExitCode(RunDirLock::Take(dir.File("none/run")).status()), kExitUsage);
  EXPECT_EQ(ExitCode(RunDirLock::Take("").status()), kExitUsage);
}

TEST(ListCheckpoints, OtherFiles_AreIgnored) {
  const TempDir dir;
  for (const char* name :
       {"step-000000000002", "step-000000000010", "step-000000000003.tmp", "ledger"}) {
    mkdir(dir.File(name).c_str(), 0777);
  }
  const auto folders = ListCheckpoints(dir.path());
  ASSERT_TRUE(folders.ok());
  ASSERT_EQ(folders->size(), 2u);
  EXPECT_EQ((*folders)[0].step, 10);
  EXPECT_EQ((*folders)[1].path, dir.File("step-000000000002"));
  EXPECT_EQ(ListCheckpoints(dir.File("none")).status().code(), absl::StatusCode::kNotFound);
}

// Else --resume auto would begin with step 0 beside the checkpoints of a disk that fails.
TEST(ListCheckpoints, FolderCannotBeRead_IsNotTakenForNone) {
  const TempDir dir;
  std::filesystem::create_symlink("loop", dir.File("loop"));
  EXPECT_EQ(ListCheckpoints(dir.File("loop")).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace gradwire
