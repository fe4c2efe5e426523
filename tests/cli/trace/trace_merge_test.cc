#include "cli/trace/trace_merge.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using testing::TempDir;
using testing::WriteFile;

std::string Event(int rank, double ts) {
  return "{\"name\":\"forward\",\"ph\":\"X\",\"pid\":" + std::to_string(rank) +
         ",\"tid\":1,\"ts\":" + std::to_string(ts) + ",\"dur\":5},\n";
}

std::string Offset(double microseconds) {
  return "{\"name\":\"clock_offset\",\"ph\":\"M\",\"pid\":0,\"tid\":0,\"args\":{\"microseconds\":" +
         std::to_string(microseconds) + "}}\n]\n";
}

class MergeTracesTest : public ::testing::Test {
 protected:
  std::string File(const std::string& name, const std::string& text) {
    WriteFile(dir_.File(name), text);
    return dir_.File(name);
  }
  TempDir dir_;
};

TEST_F(MergeTracesTest, TwoRanks_OnTheCoordinatorsClockFromTheFirstEvent) {
  const auto merged = MergeTraces({File("0", "[\n" + Event(0, 1000) + Offset(0)),
                                   File("1", "[\n" + Event(1, 5000) + Offset(-3900))});
  ASSERT_TRUE(merged.ok()) << merged.status();
  const auto events = nlohmann::json::parse(*merged)["traceEvents"];
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0]["ts"], 0);
  EXPECT_EQ(events[1]["ts"], 100);
  EXPECT_EQ(events[1]["pid"], 1);
}

TEST_F(MergeTracesTest, CutOffWithinAnEvent_WhatIsBefore) {
  const auto merged = MergeTraces({File("0", "[\n" + Event(0, 1) + "{\"name\":\"forw")});
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(nlohmann::json::parse(*merged)["traceEvents"].size(), 1u);
}

TEST_F(MergeTracesTest, BadLineInTheMiddle_NamesFileAndLine) {
  const std::string file = File("0", "[\nhello\n" + Event(0, 1) + Offset(0));
  EXPECT_EQ(MergeTraces({file}).status(),
            absl::FailedPreconditionError("'" + file + "', line 2: no event: hello"));
}

TEST_F(MergeTracesTest, TimeIsNoNumber_IsNoEvent) {
  const std::string line = "{\"name\":\"x\",\"ph\":\"X\",\"ts\":\"1\"},";
  const std::string file = File("0", "[\n" + line + "\n" + Event(0, 1) + Offset(0));
  EXPECT_EQ(MergeTraces({file}).status(),
            absl::FailedPreconditionError("'" + file + "', line 2: no event: " + line));
}

TEST_F(MergeTracesTest, SeveralOffsets_TheLastCounts) {
  const std::string early =
      "{\"name\":\"clock_offset\",\"ph\":\"M\",\"args\":{\"microseconds\":7}},\n";
  const auto merged = MergeTraces({File("0", "[\n" + early + Event(0, 1000) + Offset(0)),
                                   File("1", "[\n" + early + Event(1, 1000) + Offset(50))});
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(nlohmann::json::parse(*merged)["traceEvents"][1]["ts"], 50);
}

TEST_F(MergeTracesTest, MissingFile_NamesIt) {
  EXPECT_EQ(MergeTraces({"/no/such"}).status(),
            absl::FailedPreconditionError("no trace in '/no/such'"));
}

}  // namespace
}  // namespace gradwire
