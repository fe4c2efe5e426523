// What people get wrong: every program says what, and ends with the right code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "tests/support/cifar_files.h"
#include "tests/support/launch.h"
#include "tests/support/sockets.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kSoon = absl::Seconds(30);

struct Ended {
  int exit_code;
  std::string err;
};

Ended RunProgram(const std::string& program, const Options& options) {
  const auto process = Process::Start(program, options);
  const auto code = process->Wait(kSoon);
  EXPECT_TRUE(code.ok()) << code.status();
  return {code.value_or(-1), process->err()};
}

// A worker that fails before it needs anyone else.
Ended RunAlone(const Options& options) {
  return RunProgram("gradwire-worker",
                    Options{"--sync", "none", "--iterations", "1", "--threads", "1"} + options);
}

TEST(BadOption, Worker_UnknownOption_NamesTheNearestAndIsUsageError) {
  const Ended ended = RunProgram("gradwire-worker", {"--bach-size", "4"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("--bach-size"), HasSubstr("--batch-size")));
}

TEST(BadOption, Coordinator_UnknownOption_NamesTheNearestAndIsUsageError) {
  const Ended ended = RunProgram("gradwire-coordinator", {"--world-sise", "4"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("--world-sise"), HasSubstr("--world-size")));
}

TEST(BadOption, Launch_UnknownOption_NamesTheNearestAndIsUsageError) {
  const Ended ended = RunProgram("gradwire", {"launch", "--wokers", "2"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("--wokers"), HasSubstr("--workers")));
}

TEST(BadOption, Launch_UnknownWorkerOption_IsUsageErrorBeforeAnythingStarts) {
  const Ended ended =
      RunProgram("gradwire", {"launch", "--workers", "2", "--", "--bach-size", "4"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("--bach-size"), HasSubstr("--batch-size")));
}

TEST(BadOption, Worker_UnknownModel_ListsTheModels) {
  const Ended ended = RunAlone({"--model", "vgg12", "--dataset", "synthetic"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("vgg12"), HasSubstr("vgg11")));
}

TEST(BadOption, Worker_UnknownDataset_ListsTheDatasets) {
  const Ended ended = RunAlone({"--dataset", "cifar"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("cifar10"), HasSubstr("fashion-mnist")));
}

// Each worker finds that before it joins, so no run begins, and none counts as lost.
TEST(BadOption, Launch_DataThatTheModelDoesNotTake_IsUsageErrorBeforeTheRunBegins) {
  const LaunchResult run = RunLaunch(2, TinyRun(1) + Options{"--model", "bert_tiny"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, AllOf(HasSubstr("images of 3x32x32, the model takes 128 token ids"),
                             Not(HasSubstr("lost in step"))));
}

TEST(BadOption, Worker_UnknownProgress_IsUsageErrorBeforeItJoins) {
  const auto worker = Process::Start(
      "gradwire-worker",
      TinyRun(1) + Options{"--coordinator", UnusedAddress(), "--connect-timeout-seconds", "2"},
      {{"GRADWIRE_PROGRESS", "fancy"}});
  const auto code = worker->Wait(kSoon);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 2);
  EXPECT_THAT(worker->err(), HasSubstr("GRADWIRE_PROGRESS: got \"fancy\", expected bar, plain"));
}

// The loss is infinite or NaN after the first step. Nothing is wrong with the options.
TEST(BadTraining, WorkerAlone_GradientNotFinite_IsAFailure) {
  const Ended ended =
      RunProgram("gradwire-worker", {"--sync", "none", "--threads", "1", "--dataset", "synthetic",
                                     "--model", "mlp", "--batch-size", "8", "--iterations", "20",
                                     "--lr", "1e30", "--on-nonfinite", "stop"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr("is not finite"));
}

class BadDataTest : public ::testing::Test {
 protected:
  BadDataTest() { WriteCifarFiles(dir_.path(), 4); }
  Ended Train() { return RunAlone({"--dataset", "cifar10", "--data-dir", dir_.path()}); }
  std::string Batch() const { return dir_.File("data_batch_2.bin"); }
  TempDir dir_;
};

TEST_F(BadDataTest, Cifar_TruncatedFile_NamesItAndTheExpectedSize) {
  WriteFile(Batch(), CifarRecords(4).substr(0, 5000));
  const Ended ended = Train();
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr(Batch()), HasSubstr("5000"), HasSubstr("3073")));
}

TEST_F(BadDataTest, Cifar_EmptyFile_NamesIt) {
  WriteFile(Batch(), "");
  const Ended ended = Train();
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr(Batch()), HasSubstr("empty")));
}

TEST_F(BadDataTest, Cifar_WrongLabel_NamesFileAndLabel) {
  std::string records = CifarRecords(4);
  records[2 * kCifarRecordBytes] = 77;
  WriteFile(Batch(), records);
  const Ended ended = Train();
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr(Batch()), HasSubstr("77")));
}

TEST_F(BadDataTest, Cifar_MissingFile_SaysHowToGetIt) {
  std::filesystem::remove(Batch());
  const Ended ended = Train();
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr(Batch()), HasSubstr("deploy/fetch-cifar10")));
}

TEST_F(BadDataTest, FashionMnist_MissingFolder_NamesTheDebianPackage) {
  const Ended ended = RunAlone({"--dataset", "fashion-mnist", "--data-dir", dir_.File("none")});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("dataset-fashion-mnist"));
}

// A model that scales no images would see black borders only in the test data.
TEST(BadImages, TestImagesOfAnotherSize_AreRefusedWithBothSizes) {
  const TempDir dir;
  for (const auto& [split, side] : {std::pair<const char*, int>{"train", 32}, {"test", 28}}) {
    std::filesystem::create_directories(dir.File(absl::StrCat(split, "/cat")));
    WriteFile(dir.File(absl::StrCat(split, "/cat/a.ppm")),
              absl::StrCat("P6 ", side, " ", side, " 255\n", std::string(3 * side * side, 'x')));
  }
  const Options run = {"--dataset", "images", "--data-dir", dir.path(),
                       "--model",   "mlp",    "--evaluate", "true"};
  const Ended ended = RunAlone(run);
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("got 28x28 pixels, expected 32x32 as the training images have"));
  EXPECT_EQ(RunAlone(run + Options{"--image-size", "32"}).exit_code, 0);
}

TEST(PortInUse, Coordinator_GrpcPort_NamesTheAddressAndFails) {
  const BusyPort busy;
  const Ended ended =
      RunProgram("gradwire-coordinator", {"--listen", busy.address(), "--metrics", "off"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, AllOf(HasSubstr(busy.address()), HasSubstr("in use")));
}

TEST(PortInUse, Coordinator_MetricsPort_NamesTheAddressAndFails) {
  const BusyPort busy;
  const Ended ended =
      RunProgram("gradwire-coordinator", {"--listen", "127.0.0.1:0", "--metrics", busy.address()});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, AllOf(HasSubstr(busy.address()), HasSubstr("in use")));
}

TEST(Joining, CoordinatorAbsent_IsTryAgainWithinItsDeadline) {
  const std::string nobody = UnusedAddress();
  const absl::Time start = SteadyNow();
  const Ended ended =
      RunProgram("gradwire-worker",
                 TinyRun(1) + Options{"--coordinator", nobody, "--connect-timeout-seconds", "2"});
  EXPECT_EQ(ended.exit_code, 75);
  EXPECT_THAT(ended.err, AllOf(HasSubstr(nobody), HasSubstr("2 s")));
  EXPECT_GE(SteadyNow() - start, absl::Seconds(2));
  EXPECT_LT(SteadyNow() - start, absl::Seconds(8));
}

TEST(Joining, OtherWorldSize_IsRefusedWithBothNumbers) {
  const RunningCoordinator coordinator(2);
  const auto worker =
      StartWorker(coordinator.address(), 0, TinyRun(1) + Options{"--world-size", "3"});
  EXPECT_EQ(*worker->Wait(kSoon), 2);
  EXPECT_THAT(worker->err(), HasSubstr("world size: got 3, expected 2 (coordinator)"));
}

TEST(Joining, RankOutOfRange_IsRefusedWithTheRange) {
  const RunningCoordinator coordinator(2);
  const auto worker = StartWorker(coordinator.address(), 2, TinyRun(1));
  EXPECT_EQ(*worker->Wait(kSoon), 2);
  EXPECT_THAT(worker->err(), HasSubstr("rank: got 2, expected 0 to 1"));
}

// The second of two workers differs in something; the first one stays.
class SecondWorkerTest : public ::testing::Test {
 protected:
  SecondWorkerTest()
      : coordinator_(2),
        first_(StartWorker(coordinator_.address(), 0, TinyRun(2) + kSync)),
        joined_(coordinator_.process().WaitForOutput("1 of 2 workers", kSoon)) {}

  Ended Second(int rank, const Options& options) {
    EXPECT_TRUE(joined_.ok()) << joined_;
    const auto second = StartWorker(coordinator_.address(), rank, options);
    const auto code = second->Wait(kSoon);
    EXPECT_TRUE(code.ok()) << code.status();
    return {code.value_or(-1), second->err()};
  }

  const Options kSync = {"--sync", "gather-scatter"};
  RunningCoordinator coordinator_;
  std::unique_ptr<Process> first_;
  absl::Status joined_;
};

TEST_F(SecondWorkerTest, SameRank_IsRefusedAndTheRunGoesOnWithAnother) {
  const Ended ended = Second(0, TinyRun(2) + kSync);
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("rank 0 is taken by "));
  EXPECT_EQ(Second(1, TinyRun(2) + kSync).exit_code, 0);
  EXPECT_EQ(*first_->Wait(kSoon), 0) << first_->err();
}

TEST_F(SecondWorkerTest, OtherWireType_IsRefusedWithBothValues) {
  const Ended ended = Second(1, TinyRun(2) + kSync + Options{"--wire", "bf16"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("setting 'wire': got bf16, expected fp32 (rank 0)"));
}

TEST_F(SecondWorkerTest, OtherCompression_IsRefusedWithBothValues) {
  const Ended ended = Second(1, TinyRun(2) + kSync + Options{"--compress", "int8"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("setting 'compress': got int8"));
}

TEST_F(SecondWorkerTest, OtherBackend_IsRefusedWithBothValues) {
  const Ended ended = Second(1, TinyRun(2) + Options{"--sync", "all-reduce"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("setting 'backend': got ring, expected auto (rank 0)"));
}

TEST_F(SecondWorkerTest, OtherBucketSize_IsRefused) {
  const Ended ended = Second(1, TinyRun(2) + kSync + Options{"--bucket-cap-mb", "0"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("(rank 0)"));
}

TEST_F(SecondWorkerTest, OtherSeed_IsRefusedWithBothValues) {
  const Ended ended = Second(1, TinyRun(2) + kSync + Options{"--seed", "745"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("seed"), HasSubstr("745"), HasSubstr("744")));
}

}  // namespace
}  // namespace gradwire::testing
