#include "cli/report/report_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_replace.h"
#include "tests/cli/launch/log_lines.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;
using testing::LogLine;
using testing::LogText;

// What is said of log "a.jsonl" with this text.
std::string ErrorOf(const std::string& text) {
  const absl::Status status = ParseRankLog("a.jsonl", text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

std::string Replaced(const std::string& from, const std::string& to) {
  const std::string line = absl::StrReplaceAll(LogLine(0, 0), {{from, to}});
  EXPECT_NE(line, LogLine(0, 0));
  return line;
}

TEST(ParseRankLog, WorkersLines_AreRead) {
  const auto log = ParseRankLog("a.jsonl", LogText(3, 2));
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_EQ(log->rank, 3);
  ASSERT_EQ(log->records.size(), 2u);
  const LogRecord& record = log->records[1];
  EXPECT_EQ(record.step, 1u);
  EXPECT_EQ(record.samples, 8);
  EXPECT_DOUBLE_EQ(record.loss, 1.9);
  EXPECT_DOUBLE_EQ(record.iteration, 0.5);
  EXPECT_DOUBLE_EQ(record.phases[Phase::kExposedCommunication], 0.05);
  EXPECT_DOUBLE_EQ(record.bytes_received, 2000000);
}

TEST(ParseRankLog, NullLoss_IsNan) {
  const auto log = ParseRankLog("a.jsonl", LogLine(0, 0, 0.5, std::nan("")));
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_TRUE(std::isnan(log->records[0].loss));
}

TEST(ParseRankLog, UnknownField_IsAllowed) {
  EXPECT_TRUE(ParseRankLog("a.jsonl", Replaced("{\"step\"", "{\"new\":1,\"step\"")).ok());
}

TEST(ParseRankLog, LastNewlineMissing_IsNoError) {
  std::string text = LogText(0, 2);
  text.pop_back();
  ASSERT_TRUE(ParseRankLog("a.jsonl", text).ok());
}

TEST(ParseRankLog, Empty_SaysSo) {
  EXPECT_EQ(ErrorOf(""), "a.jsonl: got an empty file, expected a line for each iteration");
}

TEST(ParseRankLog, OtherText_IsQuotedWithItsLine) {
  EXPECT_EQ(ErrorOf("<!DOCTYPE html>\n"),
            "a.jsonl:1: got '<!DOCTYPE html>', expected a JSON object as of --log-jsonl");
}

TEST(ParseRankLog, BinaryText_IsQuotedHarmlesslyAndShortly) {
  EXPECT_THAT(ErrorOf(std::string(100, '\x1b') + "\n"), HasSubstr(std::string(40, '?') + "…'"));
}

TEST(ParseRankLog, Number_IsNoLog) {
  EXPECT_THAT(ErrorOf("17\n"), HasSubstr("a.jsonl:1: got '17', expected a JSON object"));
}

TEST(ParseRankLog, EmptyLine_IsNamed) {
  EXPECT_THAT(ErrorOf(LogLine(0, 0) + "\n" + LogLine(0, 1)), HasSubstr("a.jsonl:2: got ''"));
}

TEST(ParseRankLog, LastLineCutShort_SaysWhereItEnds) {
  const std::string text = LogText(0, 2) + R"({"step":2,"epo)";
  EXPECT_EQ(ErrorOf(text),
            "a.jsonl:3: got a last line that ends after 14 bytes: '{\"step\":2,\"epo', expected a "
            "whole one; the file was cut short; without this line it can be shown");
}

TEST(ParseRankLog, LineCutInTheMiddle_IsNamed) {
  EXPECT_THAT(ErrorOf("{\"step\":0\n" + LogLine(0, 1)), HasSubstr("a.jsonl:1: got '{\"step\":0'"));
}

TEST(ParseRankLog, FieldMissing_IsNamedAsOfAnotherVersion) {
  EXPECT_EQ(ErrorOf(Replaced("\"samples\"", "\"images\"")),
            "a.jsonl:1: got no field 'samples', expected it in every line (a log of another "
            "version?)");
}

TEST(ParseRankLog, LinesOfTwoVersions_NameTheFirstThatDiffers) {
  const std::string text = LogLine(0, 0) + absl::StrReplaceAll(LogLine(0, 1), {{"forward", "f"}});
  EXPECT_THAT(ErrorOf(text), HasSubstr("a.jsonl:2: got no field 'phase_seconds/forward'"));
}

TEST(ParseRankLog, FieldOfOtherType_ShowsGotAndExpected) {
  EXPECT_EQ(ErrorOf(Replaced("\"samples\":8", "\"samples\":\"8\"")),
            "a.jsonl:1: field 'samples': got '\"8\"', expected a whole number (a log of another "
            "version?)");
  EXPECT_THAT(ErrorOf(Replaced("\"loss\":2.0", "\"loss\":true")),
              HasSubstr("field 'loss': got 'true', expected a number"));
}

TEST(ParseRankLog, PhasesNoObject_AreMissing) {
  EXPECT_THAT(ErrorOf(R"({"step":0,"epoch":0,"rank":0,"loss":1,"samples":1,)"
                      R"("iteration_seconds":1,"phase_seconds":[1]})"),
              HasSubstr("got no field 'phase_seconds/data'"));
}

TEST(ParseRankLog, NegativeOrHugeRank_IsRefused) {
  EXPECT_THAT(ErrorOf(Replaced("\"rank\":0", "\"rank\":-1")), HasSubstr("got '-1', expected"));
  EXPECT_THAT(ErrorOf(Replaced("\"rank\":0", "\"rank\":99999")), HasSubstr("got '99999'"));
}

TEST(ParseRankLog, TwoRanks_AreRefused) {
  EXPECT_EQ(ErrorOf(LogLine(0, 0) + LogLine(1, 1)),
            "a.jsonl:2: got rank 1, expected rank 0 as in the lines before");
}

TEST(ParseRankLog, StepTwice_IsRefused) {
  EXPECT_EQ(ErrorOf(LogLine(0, 4) + LogLine(0, 4)),
            "a.jsonl:2: got step 4, expected one after step 4");
}

TEST(ReadRankLog, File_IsRead) {
  const testing::TempDir dir;
  testing::WriteFile(dir.File("a"), LogText(0, 3));
  const auto log = ReadRankLog(dir.File("a"));
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_EQ(log->records.size(), 3u);
  EXPECT_EQ(log->file, dir.File("a"));
}

TEST(ReadRankLog, NoFile_IsNotFound) {
  const absl::Status status = ReadRankLog("/no/log").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "cannot read the log '/no/log': No such file or directory");
}

TEST(ReadRankLog, Folder_IsNotFound) {
  const testing::TempDir dir;
  EXPECT_EQ(ReadRankLog(dir.path()).status().message(),
            "cannot read the log '" + dir.path() + "': Is a directory");
}

}  // namespace
}  // namespace gradwire
