#include "cli/launch/launch_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/telemetry/phases.h"
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

// Two ranks; an iteration sends 10^8 bytes in 0.8 s: 1 Gbit/s.
nlohmann::ordered_json TwoRanks(const std::string& backend) {
  auto summaries = nlohmann::ordered_json::parse(R"({"ranks": [{
      "rank": 0, "world_size": 2, "sync": "gather-scatter", "wire": "fp32", "iterations": 10,
      "iteration_seconds": {"mean": 1.0, "p50": 0.9}, "bytes_sent": 1000000000,
      "bytes_received": 1000000000, "phase_seconds": {"data": 0.0, "forward": 0.1,
      "backward": 0.3, "communication": 0.8, "exposed_communication": 0.6, "optimizer": 0.0}}]})");
  summaries["ranks"].push_back(summaries["ranks"][0]);
  summaries["ranks"][1]["rank"] = 1;
  for (auto& rank : summaries["ranks"]) rank["backend"] = backend;
  return summaries;
}

// The cell under `title` of rank 0.
std::string CellOf(const std::string& table, const std::string& title) {
  const std::vector<std::string> lines = absl::StrSplit(table, '\n');
  const size_t end = lines.at(0).find(title) + title.size();
  const size_t begin = lines.at(1).rfind(' ', end - 1) + 1;
  return lines.at(1).substr(begin, end - begin);
}

TEST(SummaryTable, Values_AreShownInTheirUnits) {
  const auto summaries = nlohmann::ordered_json::parse(R"({"ranks": [{
      "rank": 0, "iteration_seconds": {"p50": 0.6831, "mean": 0.5}, "phase_seconds": {"data": 0.0012,
      "forward": 0.2, "backward": 0.4, "communication": 0.3, "exposed_communication": 0.05,
      "optimizer": 0.01}, "loss": {"first": 2.67, "last": null}, "test": null}]})");
  EXPECT_EQ(SummaryTable(summaries, 0),
            "    rank  p50 ms    data  forward  backward  communication  exposed  optimizer  "
            "exposed %  busbw Gbit/s  first loss  last loss  accuracy %\n"
            "       0   683.1     1.2    200.0     400.0          300.0     50.0       10.0  "
            "       10             -      2.6700          -           -\n");
}

TEST(SummaryTable, EachPhase_HasItsColumnInMilliseconds) {
  PhaseSeconds seconds;
  for (const PhaseInfo& info : kPhases) seconds[info.phase] = 1 + static_cast<int>(info.phase);
  nlohmann::ordered_json summaries = {{"ranks", {{{"rank", 0}}}}};
  summaries["ranks"][0]["phase_seconds"] = PhaseJson(seconds);
  const std::string table = SummaryTable(summaries, 0);
  for (const PhaseInfo& info : kPhases) {
    EXPECT_EQ(CellOf(table, info.title), absl::StrCat(1 + static_cast<int>(info.phase), "000.0"));
  }
}

TEST(SummaryTable, Accuracy_IsInPercent) {
  const auto summaries =
      nlohmann::ordered_json::parse(R"({"ranks": [{"rank": 0, "test": {"accuracy": 0.1834}}]})");
  EXPECT_THAT(SummaryTable(summaries, 0), ::testing::EndsWith(" 18.34\n"));
}

TEST(SummaryTable, BusBandwidth_IsWhatTheLinkMoved) {
  EXPECT_EQ(CellOf(SummaryTable(TwoRanks("ring"), 0), "busbw Gbit/s"), "1.00");
}

TEST(SummaryTable, BusBandwidthOfCoordinator_IsScaledAsOfAnAllReduce) {
  auto summaries = TwoRanks("coordinator");
  for (auto& rank : summaries["ranks"]) rank["world_size"] = 4;
  EXPECT_EQ(CellOf(SummaryTable(summaries, 0), "busbw Gbit/s"), "1.50");
}

TEST(SummaryTable, OneRank_HasNoBusBandwidth) {
  auto summaries = TwoRanks("ring");
  for (auto& rank : summaries["ranks"]) rank["world_size"] = 1;
  EXPECT_EQ(CellOf(SummaryTable(summaries, 0), "busbw Gbit/s"), "-");
}

TEST(SummaryTable, LinkSpeedKnown_ComparesWithThePlan) {
  // 0.8 Gbit of payload need 0.8364 s of a link of 1 Gbit/s, 0.4182 s of one of 2.
  EXPECT_EQ(CellOf(SummaryTable(TwoRanks("ring"), 2), "of plan %"), "52");
}

TEST(SummaryTable, LinkSpeedKnownAndCoordinator_TakesItsLink) {
  EXPECT_EQ(CellOf(SummaryTable(TwoRanks("coordinator"), 4), "of plan %"), "52");
}

TEST(SummaryTable, LinkSpeedUnknown_HasNoSuchColumn) {
  EXPECT_THAT(SummaryTable(TwoRanks("ring"), 0), ::testing::Not(::testing::HasSubstr("plan")));
}

TEST(BottleneckSentence, ExposedCommunication_IsNamedWithAdvice) {
  EXPECT_EQ(BottleneckSentence(TwoRanks("ring"), 2),
            "Bottleneck: exposed communication, 600.0 of 1000.0 ms an iteration (60 %), with the "
            "links at 52 % of their speed; try --sync ddp (transfers run beside backward), --wire "
            "bf16 (half the bytes) or a larger --batch-size or --accumulate.");
}

TEST(BottleneckSentence, NothingMeasured_SaysSo) {
  const auto summaries = nlohmann::ordered_json::parse(R"({"ranks": [{"rank": 0}]})");
  EXPECT_THAT(BottleneckSentence(summaries, 0), ::testing::StartsWith("Bottleneck: not known"));
}

}  // namespace
}  // namespace gradwire
