#include "cli/report/report_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(const std::vector<std::string>& args) {
  return std::string(ParseReportOptions(args, {}).status().message());
}

TEST(ParseReportOptions, LogsAndOptionsMixed_AreToldApart) {
  const auto parsed = ParseReportOptions({"a", "--out", "x.html", "b", "--run", "r=c,d"}, {});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.out, "x.html");
  EXPECT_THAT(parsed->options.logs, ElementsAre("a", "b"));
  ASSERT_EQ(parsed->options.runs.size(), 1u);
  EXPECT_EQ(parsed->options.runs[0].name, "r");
  EXPECT_THAT(parsed->options.runs[0].files, ElementsAre("c", "d"));
}

TEST(ParseReportOptions, LogAlone_GoesToReportHtml) {
  EXPECT_EQ(ParseReportOptions({"a"}, {})->options.out, "report.html");
}

TEST(ParseReportOptions, BehindTwoDashes_AreLogs) {
  EXPECT_THAT(ParseReportOptions({"--", "--out", "-x"}, {})->options.logs,
              ElementsAre("--out", "-x"));
}

TEST(ParseReportOptions, RunWithEqualsSign_IsTaken) {
  EXPECT_EQ(ParseReportOptions({"--run=r=c"}, {})->options.runs[0].name, "r");
}

TEST(ParseReportOptions, OutInEnvironment_IsTaken) {
  EXPECT_EQ(ParseReportOptions({"a"}, {{"GRADWIRE_OUT", "e.html"}})->options.out, "e.html");
}

TEST(ParseReportOptions, RunInConfigFile_IsTaken) {
  const testing::TempDir dir;
  testing::WriteFile(dir.File("c.ini"), "[report]\nrun = r=c\n");
  const auto parsed = ParseReportOptions({"--config", dir.File("c.ini")}, {});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.runs[0].name, "r");
}

TEST(ParseReportOptions, Help_NeedsNoLog) {
  const auto parsed = ParseReportOptions({"--help"}, {});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->print, HasSubstr("python3-matplotlib"));
}

TEST(ParseReportOptions, NoLog_IsRefused) {
  EXPECT_EQ(ErrorOf({}), "no log is named; a worker writes one with --log-jsonl");
}

TEST(ParseReportOptions, LogTwice_IsRefused) {
  EXPECT_EQ(ErrorOf({"a", "--run", "r=a"}), "'a' is named twice");
}

TEST(ParseReportOptions, LogIsOutput_IsRefused) {
  EXPECT_EQ(ErrorOf({"a", "--out", "a"}),
            "--out: 'a' is one of the logs, and would be overwritten");
}

TEST(ParseReportOptions, LogIsCsvOfOutput_IsRefused) {
  EXPECT_EQ(ErrorOf({"x.steps.csv", "--out", "x.html"}),
            "--out: 'x.steps.csv' is one of the logs, and would be overwritten");
}

TEST(ParseReportOptions, TwoRunsOfOneName_AreRefused) {
  EXPECT_EQ(ErrorOf({"--run", "r=a", "--run", "r=b"}), "--run: there are two runs 'r'");
}

TEST(ParseReportOptions, RunWithoutFiles_IsRefused) {
  EXPECT_EQ(ErrorOf({"--run", "r"}), "--run: got 'r', expected NAME=FILE[,FILE...]");
}

TEST(ParseReportOptions, UnknownOption_IsNamed) {
  EXPECT_EQ(ErrorOf({"a", "--outt", "x"}), "unknown option --outt; did you mean --out?");
}

}  // namespace
}  // namespace gradwire
