#include "deploy/launcher/launch_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

TEST(CollectSummaries, AllThere_AreInOrder) {
  testing::TempDir dir;
  testing::WriteFile(dir.File("0"), R"({"rank": 0})");
  testing::WriteFile(dir.File("1"), R"({"rank": 1})");
  EXPECT_EQ(CollectSummaries({dir.File("0"), dir.File("1")})->dump(),
            R"({"ranks":[{"rank":0},{"rank":1}]})");
}

TEST(CollectSummaries, OneMissing_IsNamed) {
  EXPECT_EQ(CollectSummaries({"/no/file"}).status().message(), "no summary in '/no/file'");
}

TEST(CollectSummaries, NoJson_IsNamed) {
  testing::TempDir dir;
  testing::WriteFile(dir.File("0"), "{");
  EXPECT_EQ(CollectSummaries({dir.File("0")}).status().message(),
            "no summary in '" + dir.File("0") + "'");
}

TEST(SummaryTable, Values_AreShownInTheirUnits) {
  const auto summaries = nlohmann::ordered_json::parse(R"({"ranks": [{
      "rank": 0, "iteration_seconds": {"p50": 0.6831}, "phase_seconds": {"data": 0.0012,
      "forward": 0.2, "backward": 0.4, "communication": 0.3, "exposed_communication": 0.05,
      "optimizer": 0.01}, "loss": {"first": 2.67, "last": null}, "test": null}]})");
  EXPECT_EQ(SummaryTable(summaries),
            "    rank  p50 ms    data  forward  backward  communication  exposed  optimizer  first "
            "loss  last loss  accuracy %\n"
            "       0   683.1     1.2    200.0     400.0          300.0     50.0       10.0      "
            "2.6700          -           -\n");
}

TEST(SummaryTable, Accuracy_IsInPercent) {
  const auto summaries =
      nlohmann::ordered_json::parse(R"({"ranks": [{"rank": 0, "test": {"accuracy": 0.1834}}]})");
  EXPECT_THAT(SummaryTable(summaries), ::testing::EndsWith(" 18.34\n"));
}

}  // namespace
}  // namespace gradwire
