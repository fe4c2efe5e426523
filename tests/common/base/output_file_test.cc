#include "common/base/output_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using testing::ReadFile;
using testing::TempDir;
using testing::WriteFile;

std::vector<std::string> Names(const TempDir& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    names.push_back(entry.path().filename());
  }
  return names;
}

TEST(ReplaceFile, OldFile_IsReplacedAndNothingStaysBeside) {
  const TempDir dir;
  WriteFile(dir.File("out"), "a longer old text");
  ASSERT_TRUE(ReplaceFile(dir.File("out"), "new").ok());
  EXPECT_EQ(ReadFile(dir.File("out")), "new");
  EXPECT_THAT(Names(dir), ::testing::ElementsAre("out"));
}

TEST(ReplaceFile, Link_StaysALink) {
  const TempDir dir;
  WriteFile(dir.File("real"), "old");
  ASSERT_EQ(symlink(dir.File("real").c_str(), dir.File("link").c_str()), 0);
  ASSERT_TRUE(ReplaceFile(dir.File("link"), "new").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(dir.File("link")));
  EXPECT_EQ(ReadFile(dir.File("real")), "new");
}

TEST(ReplaceFile, Device_StaysADevice) {
  ASSERT_TRUE(ReplaceFile("/dev/null", "text").ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(ReplaceFile, FullDevice_SaysSo) {
  EXPECT_EQ(ReplaceFile("/dev/full", "text"),
            absl::InternalError("cannot write /dev/full: no space left on device"));
}

TEST(ReplaceFile, Folder_IsRefused) {
  const TempDir dir;
  EXPECT_EQ(ReplaceFile(dir.path(), "text"),
            absl::InternalError("cannot write " + dir.path() + ": is a directory"));
}

TEST(CheckWritable, NewFile_IsNotMade) {
  const TempDir dir;
  EXPECT_TRUE(CheckWritable(dir.File("out")).ok());
  EXPECT_THAT(Names(dir), ::testing::IsEmpty());
}

TEST(CheckWritable, OldFile_IsUnchanged) {
  const TempDir dir;
  WriteFile(dir.File("out"), "old");
  EXPECT_TRUE(CheckWritable(dir.File("out")).ok());
  EXPECT_EQ(ReadFile(dir.File("out")), "old");
}

TEST(CheckWritable, Pipe_DoesNotWaitForAReader) {
  const TempDir dir;
  ASSERT_EQ(mkfifo(dir.File("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(CheckWritable(dir.File("pipe")).ok());
}

TEST(CheckWritable, NoSuchFolder_NamesPathAndCause) {
  const TempDir dir;
  const std::string path = dir.File("missing/out");
  EXPECT_EQ(CheckWritable(path),
            absl::InvalidArgumentError("cannot write " + path + ": no such file or directory"));
}

TEST(CheckWritable, Folder_IsRefused) {
  const TempDir dir;
  EXPECT_EQ(CheckWritable(dir.path()),
            absl::InvalidArgumentError("cannot write " + dir.path() + ": is a directory"));
}

TEST(PathOfRankTest, PathOfRank_Placeholder_BecomesTheRank) {
  EXPECT_EQ(PathOfRank("log-{rank}.jsonl", Rank(3)), "log-3.jsonl");
}

TEST(PathOfRankTest, PathOfRank_NoPlaceholder_StaysAsItIs) {
  EXPECT_EQ(PathOfRank("log.jsonl", Rank(3)), "log.jsonl");
}

}  // namespace
}  // namespace gradwire
