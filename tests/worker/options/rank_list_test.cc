#include "worker/options/rank_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RankList, ParseRanks_NumbersAndRanges_AreAscending) {
  EXPECT_THAT(ParseRanks("2").value(), ElementsAre(Rank(2)));
  EXPECT_THAT(ParseRanks("0-2").value(), ElementsAre(Rank(0), Rank(1), Rank(2)));
  EXPECT_THAT(ParseRanks("5,0-1").value(), ElementsAre(Rank(0), Rank(1), Rank(5)));
  EXPECT_THAT(ParseRanks("3-3").value(), ElementsAre(Rank(3)));
}

TEST(RankList, ParseRanks_LastRank_IsTheHighestPossible) {
  EXPECT_THAT(ParseRanks("65534").value(), ElementsAre(Rank(65534)));
  EXPECT_EQ(ParseRanks("0-65534")->size(), 65535);
}

TEST(RankList, ParseRanks_OtherForms_SayWhatIsExpected) {
  for (const char* text : {"", ",", "0,", ",0", "a", "-1", "1-", "1-2-3", "2-1", "65535", "0-65535",
                           "99999999999999999999", "0x1", "1.5", "1;2"}) {
    const absl::Status status = ParseRanks(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(status.message(), std::string("got '") + text +
                                    "', expected ranks from 0 to 65534, such as 2, 0,1 or 0-2");
  }
}

TEST(RankList, ParseRanks_RankTwice_IsRefused) {
  for (const char* text : {"1,1", "0-2,2", "2,0-2", "0-1,1-2"}) {
    EXPECT_EQ(ParseRanks(text).status(),
              absl::InvalidArgumentError(std::string("got '") + text +
                                         "', expected each rank only once"));
  }
}

TEST(RankList, ToText_OfRanks_IsTakenAgain) {
  EXPECT_EQ(ToText({}), "");
  EXPECT_EQ(ToText({Rank(0), Rank(1), Rank(65534)}), "0,1,65534");
  EXPECT_EQ(ToText(ParseRanks(ToText({Rank(3), Rank(4)})).value()), "3,4");
}

TEST(RankList, Option_WrongText_LeavesTheField) {
  std::vector<Rank> field = {Rank(7)};
  const OptionValue option = RankList(&field);
  EXPECT_THAT(std::string(option.set("x").message()), HasSubstr("got 'x', expected ranks"));
  EXPECT_THAT(field, ElementsAre(Rank(7)));
  EXPECT_TRUE(option.set("1,0").ok());
  EXPECT_THAT(field, ElementsAre(Rank(0), Rank(1)));
}

}  // namespace
}  // namespace gradwire
