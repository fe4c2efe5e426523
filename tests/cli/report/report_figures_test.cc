#include "cli/report/report_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/cli/launch/log_lines.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MakeLog;
using ::testing::Not;

RunStats RunOf(const std::string& name, int ranks, int steps = 3, double seconds = 0.5) {
  std::vector<RankLog> logs;
  for (int rank = 0; rank < ranks; ++rank) {
    logs.push_back(MakeLog(absl::StrCat(rank), rank, steps, seconds));
  }
  return Describe(MakeRun(name, std::move(logs)).value());
}

std::vector<std::string> KeysOf(const std::vector<Figure>& figures) {
  std::vector<std::string> keys;
  for (const Figure& figure : figures) keys.push_back(figure.key);
  return keys;
}

std::string ScriptOf(const std::string& key, const std::vector<RunStats>& runs) {
  for (const Figure& figure : MakeFigures(runs)) {
    if (figure.key == key) return figure.script;
  }
  return "";
}

TEST(MakeFigures, OneRun_HasAllButScaling) {
  EXPECT_THAT(KeysOf(MakeFigures({RunOf("a", 2)})), ElementsAre("iteration", "phases", "loss"));
}

TEST(MakeFigures, TwoNumbersOfRanksOfOneSetup_HaveScaling) {
  EXPECT_THAT(KeysOf(MakeFigures({RunOf("a-1", 1), RunOf("a-2", 2)})),
              ElementsAre("iteration", "phases", "loss", "scaling"));
}

TEST(MakeFigures, TwoSetups_HaveNoScaling) {
  EXPECT_THAT(KeysOf(MakeFigures({RunOf("a-1", 1), RunOf("b-2", 2)})),
              ElementsAre("iteration", "phases", "loss"));
}

TEST(MakeFigures, OneIteration_HasItsLossAlone) {
  EXPECT_THAT(KeysOf(MakeFigures({RunOf("a", 1, 1)})), ElementsAre("loss"));
}

TEST(MakeFigures, NoRun_HasNone) { EXPECT_THAT(MakeFigures({}), IsEmpty()); }

TEST(MakeFigures, IterationTime_HasABarForEachRun) {
  EXPECT_THAT(ScriptOf("iteration", {RunOf("a", 1), RunOf("b", 1, 3, 0.25)}),
              HasSubstr("\"a\" 0.5 0.5\n\"b\" 0.25 0.25\n"));
}

TEST(MakeFigures, Phases_AreStackedWithTheExposedPartAndTheRest) {
  EXPECT_THAT(ScriptOf("phases", {RunOf("a", 1)}), HasSubstr("\"a\" 0 0.1 0.35 0.05 0 "));
}

TEST(MakeFigures, Loss_HasAPointForEachStep) {
  EXPECT_THAT(ScriptOf("loss", {RunOf("a", 1, 3)}), HasSubstr("0 2\n1 1.9\n2 1.8\n"));
}

TEST(MakeFigures, LossOfALongRun_HasFewerPoints) {
  const std::string script = ScriptOf("loss", {RunOf("a", 1, 1000)});
  EXPECT_LT(std::count(script.begin(), script.end(), '\n'), 450);
  EXPECT_THAT(script, HasSubstr("\n1 1.9\n"));  // of steps 0, 1, 2
}

TEST(MakeFigures, Scaling_HasSamplesAndTheLine) {
  EXPECT_THAT(ScriptOf("scaling", {RunOf("a-2", 2), RunOf("a-1", 1)}), HasSubstr("1 16\n2 32\n"));
}

TEST(MakeFigures, ManyRanks_HaveNoTicEach) {
  EXPECT_THAT(ScriptOf("scaling", {RunOf("a-1", 1), RunOf("a-17", 17)}),
              HasSubstr("xtics autofreq"));
}

TEST(MakeFigures, NameWithQuotes_CannotLeaveItsLabel) {
  EXPECT_THAT(ScriptOf("loss", {RunOf("a'; system('x')", 1)}), Not(HasSubstr("a'")));
}

TEST(PlainLabel, SpecialCharacters_AreReplaced) {
  EXPECT_EQ(PlainLabel("a\"'`\\$@{}\n\x7f-b ü"), "a__________-b ü");
}

}  // namespace
}  // namespace gradwire
