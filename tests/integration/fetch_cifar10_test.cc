// deploy/fetch-cifar10 without a network, on an archive made up here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/cifar_files.h"
#include "tests/support/process.h"
#include "tests/support/sockets.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing::fetch_cifar10_test {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr absl::Duration kSoon = absl::Seconds(60);

class FetchCifar10Test : public ::testing::Test {
 protected:
  FetchCifar10Test() : dir_(scratch_.File("the data")), part_(dir_ + ".tar.gz.part") {
    fs::create_directory(scratch_.File("cifar-10-batches-bin"));
    WriteCifarFiles(scratch_.File("cifar-10-batches-bin"), 3);
    archive_ = Pack("whole.tar.gz");
    sum_ = Shell(absl::StrCat("md5sum < '", archive_, "' | cut -d ' ' -f 1 | tr -d '\\n'"));
  }

  std::string Shell(const std::string& script) {
    const auto shell = Process::Start("/bin/sh", {"-c", script});
    EXPECT_EQ(*shell->Wait(kSoon), 0) << shell->err();
    return shell->out();
  }

  std::string Pack(const std::string& name) {
    Shell(absl::StrCat("tar -C '", scratch_.path(), "' -czf '", scratch_.File(name),
                       "' cifar-10-batches-bin"));
    return scratch_.File(name);
  }

  // Its exit code; what it said is in err_.
  int Fetch(std::vector<std::string> arguments) {
    const auto fetch = Process::Start(SourcePath(program_), arguments, {{"no_proxy", "127.0.0.1"}});
    const auto code = fetch->Wait(kSoon);
    EXPECT_TRUE(code.ok()) << code.status();
    err_ = fetch->err();
    return code.value_or(-1);
  }

  // In the data folder, in its part file, or beside them.
  bool NothingIsLeft() {
    for (const auto& entry : fs::directory_iterator(scratch_.path())) {
      if (entry.path().filename().string().rfind("the data", 0) == 0) return false;
    }
    return true;
  }

  TempDir scratch_;
  const std::string dir_, part_;
  std::string program_ = "deploy/fetch-cifar10";
  std::string archive_, sum_, err_;
};

TEST_F(FetchCifar10Test, Archive_RightSum_UnpacksEveryFile) {
  ASSERT_EQ(Fetch({dir_, "--archive", archive_, "--md5", sum_}), 0) << err_;
  EXPECT_EQ(ReadFile(dir_ + "/data_batch_1.bin"), CifarRecords(3));
  EXPECT_EQ(ReadFile(dir_ + "/test_batch.bin"), CifarRecords(3));
  EXPECT_THAT(err_, HasSubstr("--dataset cifar10 --data-dir " + dir_));
}

TEST_F(FetchCifar10Test, Archive_OfCifar100_UnpacksItsFiles) {
  const std::string folder = scratch_.File("cifar-100-binary");
  fs::create_directory(folder);
  for (const char* name :
       {"train.bin", "test.bin", "fine_label_names.txt", "coarse_label_names.txt"}) {
    WriteFile(absl::StrCat(folder, "/", name), name);
  }
  const std::string archive = scratch_.File("hundred.tar.gz");
  Shell(absl::StrCat("tar -C '", scratch_.path(), "' -czf '", archive, "' cifar-100-binary"));
  const std::string sum = Shell("md5sum < '" + archive + "' | cut -d ' ' -f 1 | tr -d '\n'");
  program_ = "deploy/fetch-cifar100";
  EXPECT_EQ(Fetch({dir_, "--archive", archive}), 1);
  EXPECT_THAT(err_, HasSubstr("is not the archive with MD5 03b5dce01913d631647c71ecec9e9cb8"));
  ASSERT_EQ(Fetch({dir_, "--archive", archive, "--md5", sum}), 0) << err_;
  EXPECT_EQ(ReadFile(dir_ + "/train.bin"), "train.bin");
  EXPECT_THAT(err_, HasSubstr("--dataset cifar100 --data-dir " + dir_));
}

TEST_F(FetchCifar10Test, Archive_EmptyFolderIsThere_UsesIt) {
  fs::create_directory(dir_);
  EXPECT_EQ(Fetch({dir_ + "/", "--archive", archive_, "--md5", sum_}), 0) << err_;
  EXPECT_TRUE(fs::exists(dir_ + "/data_batch_5.bin"));
}

TEST_F(FetchCifar10Test, Archive_FolderHoldsOtherFiles_KeepsThem) {
  fs::create_directory(dir_);
  WriteFile(dir_ + "/notes", "mine");
  EXPECT_EQ(Fetch({dir_, "--archive", archive_, "--md5", sum_}), 0) << err_;
  EXPECT_EQ(ReadFile(dir_ + "/notes"), "mine");
  EXPECT_TRUE(fs::exists(dir_ + "/test_batch.bin"));
}

TEST_F(FetchCifar10Test, Archive_NotThePublishedOne_FailsAndLeavesNothing) {
  EXPECT_EQ(Fetch({dir_, "--archive", archive_}), 1);
  EXPECT_THAT(err_, HasSubstr("is not the archive with MD5 c32a1d4ab5d03f1284b67883e8d87530"));
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(FetchCifar10Test, Archive_LacksAFile_FailsAndLeavesNothing) {
  fs::remove(scratch_.File("cifar-10-batches-bin/data_batch_3.bin"));
  const std::string lacking = Pack("lacking.tar.gz");
  const std::string sum = Shell("md5sum < '" + lacking + "' | cut -d ' ' -f 1 | tr -d '\\n'");
  EXPECT_EQ(Fetch({dir_, "--archive", lacking, "--md5", sum}), 1);
  EXPECT_THAT(err_, HasSubstr("lacks some of cifar-10-batches-bin/"));
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(FetchCifar10Test, Archive_NoSuchFile_IsBadUsage) {
  EXPECT_EQ(Fetch({dir_, "--archive", scratch_.File("none")}), 2);
  EXPECT_THAT(err_, HasSubstr("no such file: "));
}

TEST_F(FetchCifar10Test, Again_Complete_DoesNothing) {
  ASSERT_EQ(Fetch({dir_, "--archive", archive_, "--md5", sum_}), 0) << err_;
  const auto written = fs::last_write_time(dir_ + "/test_batch.bin");
  EXPECT_EQ(Fetch({dir_}), 0);
  EXPECT_THAT(err_, HasSubstr("CIFAR-10 is already in " + dir_));
  EXPECT_EQ(fs::last_write_time(dir_ + "/test_batch.bin"), written);
}

TEST_F(FetchCifar10Test, Url_Whole_UnpacksAndRemovesThePart) {
  ASSERT_EQ(Fetch({dir_, "--url", "file://" + archive_, "--md5", sum_}), 0) << err_;
  EXPECT_TRUE(fs::exists(dir_ + "/test_batch.bin"));
  EXPECT_FALSE(fs::exists(part_));
}

TEST_F(FetchCifar10Test, Url_BeginningIsThere_FetchesOnlyTheRest) {
  const std::string whole = ReadFile(archive_);
  WriteFile(part_, whole.substr(0, whole.size() / 2));
  // The server's copy has other bytes where this machine already has the right ones.
  WriteFile(archive_, std::string(whole.size() / 2, '?') + whole.substr(whole.size() / 2));
  EXPECT_EQ(Fetch({dir_, "--url", "file://" + archive_, "--md5", sum_}), 0) << err_;
  EXPECT_TRUE(fs::exists(dir_ + "/test_batch.bin"));
}

TEST_F(FetchCifar10Test, Url_WholePartIsThere_NeedsNoServer) {
  fs::copy_file(archive_, part_);
  EXPECT_EQ(Fetch({dir_, "--url", "file:///none", "--md5", sum_}), 0) << err_;
}

TEST_F(FetchCifar10Test, Url_PartIsSpoilt_FailsAndRemovesIt) {
  WriteFile(part_, "not the beginning");
  EXPECT_EQ(Fetch({dir_, "--url", "file://" + archive_, "--md5", sum_}), 1);
  EXPECT_THAT(err_, HasSubstr("it was removed"));
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(FetchCifar10Test, Url_ServerOutOfReach_SaysSoAndIsTryAgain) {
  const std::string url = absl::StrCat("http://", UnusedAddress(), "/cifar-10-binary.tar.gz");
  EXPECT_EQ(Fetch({dir_, "--url", url}), 75);
  EXPECT_THAT(err_, HasSubstr("cannot reach " + url));
  EXPECT_THAT(err_, HasSubstr("use --archive FILE"));
}

TEST_F(FetchCifar10Test, NoFolder_Always_IsBadUsage) {
  EXPECT_EQ(Fetch({}), 2);
  EXPECT_THAT(err_, HasSubstr("no DIR\nUsage:\n  deploy/fetch-cifar10 DIR"));
}

TEST_F(FetchCifar10Test, UnknownOption_Always_IsBadUsage) {
  EXPECT_EQ(Fetch({dir_, "--force"}), 2);
  EXPECT_THAT(err_, HasSubstr("unknown option --force"));
}

TEST_F(FetchCifar10Test, FolderIsAFile_Always_IsBadUsage) {
  WriteFile(dir_, "");
  EXPECT_EQ(Fetch({dir_, "--archive", archive_, "--md5", sum_}), 2);
  EXPECT_THAT(err_, HasSubstr("is not a folder"));
}

TEST(InstallPackages, UnknownPurpose_Always_IsBadUsage) {
  const auto install = Process::Start(SourcePath("deploy/install-packages"), {"cooking"});
  EXPECT_EQ(*install->Wait(kSoon), 2);
  EXPECT_THAT(
      install->err(),
      HasSubstr(
          "no packages for 'cooking' (known: build, mpi, package, data, docs, observe, test)"));
}

}  // namespace
}  // namespace gradwire::testing::fetch_cifar10_test
