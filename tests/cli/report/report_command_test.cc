#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/terminal/commands.h"
#include "common/telemetry/phases.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Operands(const std::vector<std::string>& args,
                                  const Environment& environment = {}) {
  const auto parsed = ParseReportOptions(args, environment);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? parsed->options.operands : std::vector<std::string>();
}

TEST(ParseReportOptions, LogsAndOptionsMixed_AreToldApart) {
  const auto parsed =
      ParseReportOptions({"a", "--out", "x.html", "b", "--run", "r=c,d", "--run", "s=e"}, {});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->options.operands, ElementsAre("x.html", "r=c,d", "s=e", "a", "b"));
  EXPECT_EQ(parsed->options.data["runs"], 2);
  EXPECT_EQ(parsed->options.data["runs_from"], "--run");
}

TEST(ParseReportOptions, Phases_AreTheList) {
  EXPECT_EQ(ParseReportOptions({"a"}, {})->options.data["phases"], PhaseListJson());
}

TEST(ParseReportOptions, LogAlone_GoesToReportHtml) {
  EXPECT_THAT(Operands({"a"}), ElementsAre("report.html", "a"));
}

TEST(ParseReportOptions, BehindTwoDashes_AreLogs) {
  EXPECT_THAT(Operands({"--", "--out", "-x"}), ElementsAre("report.html", "--out", "-x"));
}

TEST(ParseReportOptions, OutInEnvironment_IsTaken) {
  EXPECT_THAT(Operands({"a"}, {{"GRADWIRE_OUT", "e.html"}}), ElementsAre("e.html", "a"));
}

TEST(ParseReportOptions, RunInConfigFile_IsTakenWithItsPlace) {
  const testing::TempDir dir;
  testing::WriteFile(dir.File("c.ini"), "[report]\nrun = r=c\n");
  const auto parsed = ParseReportOptions({"--config", dir.File("c.ini")}, {});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->options.operands, ElementsAre("report.html", "r=c"));
  EXPECT_EQ(parsed->options.data["runs_from"], "run in " + dir.File("c.ini"));
}

TEST(ParseReportOptions, Help_NamesWhatTheFiguresNeed) {
  const auto parsed = ParseReportOptions({"--help"}, {});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->print, HasSubstr("python3-matplotlib"));
}

TEST(ParseReportOptions, UnknownOption_IsNamed) {
  EXPECT_EQ(ParseReportOptions({"a", "--outt", "x"}, {}).status().message(),
            "unknown option --outt; did you mean --out?");
}

}  // namespace
}  // namespace gradwire
