#include "common/process/line_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LineSplitterTest : public ::testing::Test {
 protected:
  std::vector<std::string> lines_;
  std::vector<std::string> bars_;
  LineSplitter plain_{[this](absl::string_view line) { lines_.emplace_back(line); }, {}};
  LineSplitter with_bar_{[this](absl::string_view line) { lines_.emplace_back(line); },
                         [this](absl::string_view bar) { bars_.emplace_back(bar); }};
};

TEST_F(LineSplitterTest, Feed_LineInPieces_IsGivenOnce) {
  plain_.Feed("on");
  EXPECT_THAT(lines_, IsEmpty());
  plain_.Feed("e\ntwo\nthr");
  EXPECT_THAT(lines_, ElementsAre("one", "two"));
}

TEST_F(LineSplitterTest, Flush_LineWithoutEnd_IsGiven) {
  plain_.Feed("one\ntwo");
  plain_.Flush();
  EXPECT_THAT(lines_, ElementsAre("one", "two"));
}

TEST_F(LineSplitterTest, Flush_NothingLeft_GivesNothing) {
  plain_.Feed("one\n");
  plain_.Flush();
  EXPECT_THAT(lines_, ElementsAre("one"));
}

TEST_F(LineSplitterTest, Feed_EmptyLine_IsALine) {
  plain_.Feed("\n\n");
  EXPECT_THAT(lines_, ElementsAre("", ""));
}

TEST_F(LineSplitterTest, Feed_CarriageReturnBeforeNewline_IsDropped) {
  plain_.Feed("one\r\n");
  EXPECT_THAT(lines_, ElementsAre("one"));
}

TEST_F(LineSplitterTest, Feed_CarriageReturnWithoutBars_IsACharacter) {
  plain_.Feed("a\rb\n");
  EXPECT_THAT(lines_, ElementsAre("a\rb"));
}

TEST_F(LineSplitterTest, Feed_VeryLongLine_ComesInParts) {
  plain_.Feed(std::string(70000, 'x'));
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(lines_[0].size(), 65536u);
}

TEST_F(LineSplitterTest, Feed_Bar_IsGivenAtOnce) {
  with_bar_.Feed("10 %  \r");
  EXPECT_THAT(bars_, ElementsAre("10 %"));
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(LineSplitterTest, Feed_LineOverABar_LosesItsPadding) {
  with_bar_.Feed("10 %\rloss 1   \n");
  EXPECT_THAT(lines_, ElementsAre("loss 1"));
}

TEST_F(LineSplitterTest, Feed_BarThatEndsItsLine_BecomesALine) {
  with_bar_.Feed("100 %\r");
  with_bar_.Feed("\n");
  EXPECT_THAT(bars_, ElementsAre("100 %", ""));
  EXPECT_THAT(lines_, ElementsAre("100 %"));
}

}  // namespace
}  // namespace gradwire
