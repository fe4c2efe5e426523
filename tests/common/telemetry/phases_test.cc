#include "common/telemetry/phases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

namespace gradwire {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(Phases, List_IsByNumber) {
  for (size_t i = 0; i < std::size(kPhases); ++i) {
    EXPECT_EQ(static_cast<size_t>(kPhases[i].phase), i);
    EXPECT_EQ(&InfoOf(kPhases[i].phase), &kPhases[i]);
  }
}

TEST(Phases, List_HasNoNameTitleOrColourTwice) {
  std::set<std::string> names, titles, colours;
  for (const PhaseInfo& info : kPhases) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_TRUE(titles.insert(info.title).second) << info.title;
    EXPECT_TRUE(colours.insert(info.colour).second) << info.colour;
  }
}

TEST(Phases, List_HasNamesForJsonAndColoursForCss) {
  for (const PhaseInfo& info : kPhases) {
    EXPECT_THAT(info.name, MatchesRegex("[a-z_]+"));
    EXPECT_THAT(info.colour, MatchesRegex("#[0-9a-f]{6}"));
  }
}

TEST(ToSeconds, EachPhase_IsItsOwn) {
  PhaseTimes times;
  for (const PhaseInfo& info : kPhases) {
    times[info.phase] = absl::Seconds(1 + static_cast<int>(info.phase));
  }
  const PhaseSeconds seconds = ToSeconds(times);
  for (const PhaseInfo& info : kPhases) {
    EXPECT_EQ(seconds[info.phase], 1 + static_cast<int>(info.phase));
  }
}

TEST(PhaseJson, EachPhase_IsAtItsPointer) {
  PhaseSeconds seconds;
  for (const PhaseInfo& info : kPhases) seconds[info.phase] = 1 + static_cast<int>(info.phase);
  const nlohmann::ordered_json json = {{"phase_seconds", PhaseJson(seconds)}};
  EXPECT_EQ(json["phase_seconds"].size(), std::size(kPhases));
  for (const PhaseInfo& info : kPhases) {
    const nlohmann::ordered_json::json_pointer at(info.pointer);
    EXPECT_EQ(json[at], 1 + static_cast<int>(info.phase));
  }
}

TEST(PhaseJson, NotMeasured_IsNull) {
  PhaseSeconds seconds;
  seconds[Phase::kForward] = std::nan("");
  EXPECT_THAT(PhaseJson(seconds).dump(), HasSubstr("\"forward\":null"));
}

TEST(PhaseListJson, EachPhase_WithAllThatAPageNeeds) {
  const nlohmann::ordered_json list = PhaseListJson();
  ASSERT_EQ(list.size(), std::size(kPhases));
  for (size_t i = 0; i < std::size(kPhases); ++i) {
    EXPECT_EQ(list[i]["name"], kPhases[i].name);
    EXPECT_EQ(list[i]["title"], kPhases[i].title);
    EXPECT_EQ(list[i]["label"], kPhases[i].label);
    EXPECT_EQ(list[i]["about"], kPhases[i].about);
    EXPECT_EQ(list[i]["is_part"], kPhases[i].is_part);
    EXPECT_EQ(list[i]["colour"], kPhases[i].colour);
  }
}

}  // namespace
}  // namespace gradwire
