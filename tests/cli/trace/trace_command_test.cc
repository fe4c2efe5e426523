#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/terminal/commands.h"
#include "common/telemetry/trace_log.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::ExitedWithCode;
using testing::ReadFile;

class TraceCommandTest : public ::testing::Test {
 protected:
  TraceCommandTest() {
    for (const int rank : {0, 1}) {
      const auto log = TraceLog::Open(Part(rank), rank, "rank");
      EXPECT_TRUE(log.ok() && (*log)->Close(absl::ZeroDuration()).ok());
    }
  }
  std::string Part(int rank) const { return dir_.File(std::to_string(rank)); }

  testing::TempDir dir_;
  const std::string out_ = dir_.File("out");
};

TEST_F(TraceCommandTest, TwoParts_AreMerged) {
  EXPECT_EXIT(std::exit(TraceCommand({"--out", out_, Part(0), Part(1)}, {})), ExitedWithCode(0),
              "^$");
  EXPECT_EQ(nlohmann::json::parse(ReadFile(out_))["traceEvents"].size(), 2u);
}

TEST_F(TraceCommandTest, NoOut_IsAUsageError) {
  EXPECT_EXIT(std::exit(TraceCommand({Part(0)}, {})), ExitedWithCode(2),
              "^gradwire trace: --out FILE is missing\nTry 'gradwire trace --help'");
}

}  // namespace
}  // namespace gradwire
