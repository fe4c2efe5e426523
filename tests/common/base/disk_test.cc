#include "common/base/disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;

// /proc refuses to sync a folder, like some network shares.
TEST(RealDisk, SyncFolder_FileSystemCannotSyncFolders_Succeeds) {
  EXPECT_EQ(RealDisk().SyncFolder("/proc"), absl::OkStatus());
}

TEST(RealDisk, SyncFolder_NoSuchFolder_IsAnError) {
  const TempDir dir;
  const absl::Status status = RealDisk().SyncFolder(dir.File("none"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no such file or directory"));
}

}  // namespace
}  // namespace gradwire
