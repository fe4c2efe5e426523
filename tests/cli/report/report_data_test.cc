#include "cli/report/report_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/cli/launch/log_lines.h"

namespace gradwire {
namespace {

using testing::LogLine;
using testing::LogText;
using testing::MakeLog;
using ::testing::StartsWith;

RankLog LogOf(const std::string& text) { return ParseRankLog("a", text).value(); }

nlohmann::json DataOf(const LoggedRun& run, const std::vector<std::string>& notes = {}) {
  return nlohmann::json::parse(ReportData({run}, notes));
}

TEST(MeansOf, FirstIteration_CountsInNoMean) {
  const RankTimes means = MeansOf(LogOf(LogLine(3, 0, 9) + LogLine(3, 1, 1) + LogLine(3, 2, 2)));
  EXPECT_EQ(means.rank, 3);
  EXPECT_DOUBLE_EQ(means.iteration, 1.5);
  EXPECT_DOUBLE_EQ(means.phases[Phase::kBackward], 1.35);
  EXPECT_DOUBLE_EQ(means.phases[Phase::kExposedCommunication], 0.05);
}

TEST(MeansOf, OneIteration_HasNone) {
  EXPECT_TRUE(std::isnan(MeansOf(MakeLog("a", 0, 1)).iteration));
  EXPECT_TRUE(std::isnan(MeansOf(MakeLog("a", 0, 1)).phases[Phase::kForward]));
}

TEST(MeansOf, TimeNotMeasured_CountsInNoMean) {
  EXPECT_DOUBLE_EQ(
      MeansOf(LogOf(LogLine(0, 0) + LogLine(0, 1, std::nan("")) + LogLine(0, 2, 2))).iteration, 2);
}

TEST(ReportData, Run_HasItsLogsAsTheyWereRead) {
  const auto data = DataOf(MakeRun("ddp-2", {MakeLog("b", 1), MakeLog("a", 0)}).value());
  const auto& run = data["runs"][0];
  EXPECT_EQ(run["name"], "ddp-2");
  EXPECT_EQ(run["setup"], "ddp");
  EXPECT_EQ(run["ranks"][1]["rank"], 1);
  EXPECT_EQ(run["ranks"][1]["log"], LogText(1, 3));
}

TEST(ReportData, RankWithLongerWork_IsTheBottleneck) {
  const auto data =
      DataOf(MakeRun("r", {MakeLog("a", 0, 3, 0.4), MakeLog("b", 1, 3, 0.6)}).value());
  EXPECT_THAT(data["runs"][0]["bottleneck"].get<std::string>(), StartsWith("Bottleneck: rank 1"));
}

TEST(ReportData, OneIteration_HasNoKnownBottleneck) {
  const auto data = DataOf(MakeRun("r", {MakeLog("a", 0, 1)}).value());
  EXPECT_THAT(data["runs"][0]["bottleneck"].get<std::string>(),
              StartsWith("Bottleneck: not known"));
}

TEST(ReportData, Phases_AreTheList) {
  EXPECT_EQ(DataOf(MakeRun("r", {MakeLog("a", 0)}).value())["phases"],
            nlohmann::json(PhaseListJson()));
}

TEST(ReportData, Notes_AreThere) {
  EXPECT_EQ(DataOf(MakeRun("r", {MakeLog("a", 0)}).value(), {"One."})["notes"][0], "One.");
}

TEST(ReportData, NameThatIsNoUtf8_IsReplaced) {
  EXPECT_EQ(DataOf(MakeRun("r\xff", {MakeLog("a", 0)}).value())["runs"][0]["name"],
            "r\xef\xbf\xbd");
}

}  // namespace
}  // namespace gradwire
