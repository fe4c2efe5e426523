#include "common/base/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace {

// What fsync and rename were called with in this process, in order.
std::vector<std::string>& Calls() {
  static std::vector<std::string> calls;
  return calls;
}

std::string PathOf(int fd) {
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd));
}

bool sync_of_files_fails = false;
bool sync_of_folders_fails = false;

}  // namespace

// In place of libc's, for all that this program is linked from.
extern "C" int fsync(int fd) {
  const bool is_folder = std::filesystem::is_directory(PathOf(fd));
  Calls().push_back((is_folder ? "fsync folder " : "fsync file ") + PathOf(fd));
  const bool fails = is_folder ? sync_of_folders_fails : sync_of_files_fails;
  if (!fails) return static_cast<int>(syscall(SYS_fsync, fd));
  errno = EIO;
  return -1;
}

extern "C" int rename(const char* from, const char* to) noexcept {
  Calls().push_back(std::string("rename to ") + to);
  return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using testing::ReadFile;
using ::testing::StartsWith;
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
  EXPECT_THAT(Names(dir), ElementsAre("out"));
}

// Else a power failure could leave the new name with no content, or the old name.
TEST(ReplaceFile, OldFile_ContentThenNameReachTheDisk) {
  const TempDir dir;
  Calls().clear();
  ASSERT_TRUE(ReplaceFile(dir.File("out"), "new").ok());
  EXPECT_THAT(Calls(), ElementsAre(StartsWith("fsync file " + dir.File("out")),
                                   "rename to " + dir.File("out"), "fsync folder " + dir.path()));
}

TEST(ReplaceFile, NameWithoutFolder_ThatOfTheProcessIsSynced) {
  const TempDir dir;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  Calls().clear();
  EXPECT_TRUE(ReplaceFile("out", "new").ok());
  std::filesystem::current_path(before);
  EXPECT_EQ(Calls().back(), "fsync folder " + dir.path());
}

TEST(ReplaceFile, FolderCannotBeSynced_SaysSo) {
  const TempDir dir;
  sync_of_folders_fails = true;
  const absl::Status status = ReplaceFile(dir.File("out"), "new");
  sync_of_folders_fails = false;
  EXPECT_EQ(status,
            absl::InternalError("cannot write " + dir.File("out") + ": input/output error"));
  EXPECT_THAT(Names(dir), ElementsAre("out"));
}

TEST(ReplaceFile, ContentCannotBeSynced_OldFileStaysAsItIsAndAlone) {
  const TempDir dir;
  WriteFile(dir.File("out"), "old");
  sync_of_files_fails = true;
  const absl::Status status = ReplaceFile(dir.File("out"), "new");
  sync_of_files_fails = false;
  EXPECT_EQ(status,
            absl::InternalError("cannot write " + dir.File("out") + ": input/output error"));
  EXPECT_EQ(ReadFile(dir.File("out")), "old");
  EXPECT_THAT(Names(dir), ElementsAre("out"));
}

TEST(ReplaceFile, Pieces_AreWrittenInTheirOrder) {
  const TempDir dir;
  const auto content = [](const WritePiece& write) {
    for (const char* piece : {"a", "", "bc", "d"}) write(piece);
    return absl::OkStatus();
  };
  ASSERT_TRUE(ReplaceFile(dir.File("out"), content).ok());
  EXPECT_EQ(ReadFile(dir.File("out")), "abcd");
}

TEST(ReplaceFile, PiecesAfterAnError_AreDropped) {
  const auto content = [](const WritePiece& write) {
    for (const char* piece : {"a", "b"}) write(piece);
    return absl::OkStatus();
  };
  EXPECT_EQ(ReplaceFile("/dev/full", content),
            absl::InternalError("cannot write /dev/full: no space left on device"));
}

TEST(ReplaceFile, ContentThatFails_LeavesTheOldFile) {
  const TempDir dir;
  WriteFile(dir.File("out"), "old");
  const auto content = [](const WritePiece& write) {
    write("half");
    return absl::DataLossError("no more");
  };
  EXPECT_EQ(ReplaceFile(dir.File("out"), content), absl::DataLossError("no more"));
  EXPECT_EQ(ReadFile(dir.File("out")), "old");
  EXPECT_THAT(Names(dir), ElementsAre("out"));
}

TEST(ReplaceFile, Link_StaysALink) {
  const TempDir dir;
  WriteFile(dir.File("real"), "old");
  ASSERT_EQ(symlink(dir.File("real").c_str(), dir.File("link").c_str()), 0);
  ASSERT_TRUE(ReplaceFile(dir.File("link"), "new").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(dir.File("link")));
  EXPECT_EQ(ReadFile(dir.File("real")), "new");
}

// As with `--log-jsonl /dev/stdout --summary /dev/stdout >FILE`.
TEST(ReplaceFile, OwnDescriptorOfAFile_GoesOnAfterWhatStandsThere) {
  const TempDir dir;
  const int fd = open(dir.File("out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const std::string path = "/dev/fd/" + std::to_string(fd);
  ASSERT_EQ(write(fd, "a", 1), 1);
  ASSERT_TRUE(CheckWritable(path).ok());
  ASSERT_TRUE(ReplaceFile(path, "bc").ok());
  std::FILE* const file = OpenOutput(path, "w");
  ASSERT_NE(file, nullptr);
  std::fputs("d", file);
  std::fclose(file);
  ASSERT_EQ(write(fd, "e", 1), 1);
  close(fd);
  EXPECT_EQ(ReadFile(dir.File("out")), "abcde");
  EXPECT_THAT(Names(dir), ElementsAre("out"));
  EXPECT_EQ(CheckWritable(path),
            absl::InvalidArgumentError("cannot write " + path + ": bad file descriptor"));
}

TEST(ReplaceFile, OwnDescriptor_OnlyNamesOfOne) {
  EXPECT_EQ(OwnDescriptor("/dev/stdout"), 1);
  EXPECT_EQ(OwnDescriptor("/dev/stderr"), 2);
  EXPECT_EQ(OwnDescriptor("/proc/self/fd/7"), 7);
  for (const char* path : {"/dev/fd/", "/dev/fd/-1", "/dev/fd/1/x", "/dev/null", "out"}) {
    EXPECT_EQ(OwnDescriptor(path), absl::nullopt) << path;
  }
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

// Else a summary of an earlier run would pass for that of this one.
TEST(MarkOf, OtherFileBytesOrTime_AreToldApart) {
  const TempDir dir;
  const std::string path = dir.File("out");
  const auto write = [&path](const char* text, int second) {
    WriteFile(path, text);
    const timespec times[] = {{second, 0}, {second, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  };
  write("old", 1);
  const absl::optional<FileMark> old = MarkOf(path);
  ASSERT_TRUE(old.has_value());
  EXPECT_TRUE(old == MarkOf(path));
  write("new", 2);
  EXPECT_FALSE(old == MarkOf(path));
  write("longer", 1);
  EXPECT_FALSE(old == MarkOf(path));
  std::filesystem::rename(path, dir.File("moved"));
  write("old", 1);
  EXPECT_FALSE(old == MarkOf(path));
}

TEST(MarkOf, WhatIsNoFileOrADescriptor_HasNone) {
  const TempDir dir;
  EXPECT_FALSE(MarkOf(dir.path()).has_value());
  EXPECT_FALSE(MarkOf(dir.File("none")).has_value());
  EXPECT_FALSE(MarkOf("/dev/null").has_value());
  const int fd = open(dir.File("out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  EXPECT_FALSE(MarkOf("/dev/fd/" + std::to_string(fd)).has_value());
  close(fd);
}

TEST(PathOfRankTest, PathOfRank_Placeholder_BecomesTheRank) {
  EXPECT_EQ(PathOfRank("log-{rank}.jsonl", Rank(3)), "log-3.jsonl");
}

TEST(PathOfRankTest, PathOfRank_NoPlaceholder_StaysAsItIs) {
  EXPECT_EQ(PathOfRank("log.jsonl", Rank(3)), "log.jsonl");
}

}  // namespace
}  // namespace gradwire
