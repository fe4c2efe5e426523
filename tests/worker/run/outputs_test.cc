#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temp_dir.h"
#include "worker/run/from_options.h"

namespace gradwire {
namespace {

class CheckOutputsTest : public ::testing::Test {
 protected:
  CheckOutputsTest() { std::filesystem::create_directory(dir_.path() + "/0"); }

  const testing::TempDir dir_;
  WorkerOptions options_;
};

TEST_F(CheckOutputsTest, FolderOfALaterRankIsMissing_RefusedByName) {
  for (std::string WorkerOptions::*file : {&WorkerOptions::summary, &WorkerOptions::log_jsonl}) {
    WorkerOptions options;
    options.*file = dir_.path() + "/{rank}/out";
    EXPECT_TRUE(CheckOutputs(options, {Rank(0)}).ok());
    const absl::Status status = CheckOutputs(options, {Rank(0), Rank(1)});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("/1/out"), std::string::npos) << status.message();
  }
}

// A worker has one trace, which its first rank gives its name.
TEST_F(CheckOutputsTest, TraceOfTheFirstRank_IsEnough) {
  options_.trace = dir_.path() + "/{rank}/trace";
  EXPECT_TRUE(CheckOutputs(options_, {Rank(0), Rank(1)}).ok());
}

// Else a run would find it out at its end.
TEST_F(CheckOutputsTest, FolderOfTraceOrWeightsIsMissing_RefusedByName) {
  for (std::string WorkerOptions::*file : {&WorkerOptions::trace, &WorkerOptions::save_weights}) {
    WorkerOptions options;
    options.*file = dir_.path() + "/missing/out";
    const absl::Status status = CheckOutputs(options, {Rank(0)});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("/missing/out"), std::string::npos) << status.message();
  }
}

TEST_F(CheckOutputsTest, OneNameForTwoRanks_Refused) {
  for (std::string WorkerOptions::*file : {&WorkerOptions::summary, &WorkerOptions::log_jsonl}) {
    WorkerOptions options;
    options.*file = dir_.path() + "/out";
    EXPECT_TRUE(CheckOutputs(options, {Rank(0)}).ok());
    const absl::Status status = CheckOutputs(options, {Rank(0), Rank(1)});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("expected {rank} in its name"), std::string::npos);
  }
}

TEST_F(CheckOutputsTest, OneDeviceForTwoRanks_Taken) {
  options_.summary = options_.log_jsonl = "/dev/null";
  EXPECT_TRUE(CheckOutputs(options_, {Rank(0), Rank(1)}).ok());
}

}  // namespace
}  // namespace gradwire
