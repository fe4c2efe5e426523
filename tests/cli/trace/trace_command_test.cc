#include "cli/trace/trace_command.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "common/telemetry/trace_log.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;
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

  // The exit code; what it says is in err_.
  int Run(const std::vector<std::string>& args) {
    ::testing::internal::CaptureStderr();
    const int exit_code = TraceCommand(args, {});
    err_ = ::testing::internal::GetCapturedStderr();
    return exit_code;
  }

  testing::TempDir dir_;
  const std::string out_ = dir_.File("out");
  std::string err_;
};

TEST_F(TraceCommandTest, TwoParts_AreMerged) {
  ASSERT_EQ(Run({"--out", out_, Part(0), Part(1)}), 0) << err_;
  EXPECT_EQ(nlohmann::json::parse(ReadFile(out_))["traceEvents"].size(), 2u);
}

TEST_F(TraceCommandTest, NoPart_IsAUsageError) {
  EXPECT_EQ(Run({"--out", out_}), 2);
  EXPECT_THAT(err_, HasSubstr("gradwire trace: no FILE is named"));
}

TEST_F(TraceCommandTest, NoOut_IsAUsageError) {
  EXPECT_EQ(Run({Part(0)}), 2);
  EXPECT_THAT(err_, HasSubstr("--out FILE is missing"));
}

TEST_F(TraceCommandTest, OutIsAPart_IsKept) {
  const std::string before = ReadFile(Part(1));
  EXPECT_EQ(Run({"--out", Part(1), Part(0), Part(1)}), 2);
  EXPECT_THAT(err_, HasSubstr("is one of the files, and would be overwritten"));
  EXPECT_EQ(ReadFile(Part(1)), before);
}

TEST_F(TraceCommandTest, OutCannotBeWritten_SaysSo) {
  EXPECT_EQ(Run({"--out", dir_.File("none/out"), Part(0)}), 2);
  EXPECT_THAT(err_, HasSubstr("--out: cannot write"));
}

TEST_F(TraceCommandTest, MissingPart_IsNamed) {
  EXPECT_EQ(Run({"--out", out_, dir_.File("none")}), 1);
  EXPECT_THAT(err_, HasSubstr("no trace in '" + dir_.File("none") + "'"));
}

}  // namespace
}  // namespace gradwire
