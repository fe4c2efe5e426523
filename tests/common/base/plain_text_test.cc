#include "common/base/plain_text.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(WithoutControls, Controls_AreShownByTheirNumber) {
  EXPECT_EQ(WithoutControls("a\x1b[2J\r\nb\x7f"), "a\\x1b[2J\\x0d\\x0ab\\x7f");
  EXPECT_EQ(WithoutControls("\xc2\x9b"
                            "2J"),
            "\\x9b2J");  // what some terminals take for ESC [
}

TEST(WithoutControls, OtherText_Stays) {
  EXPECT_EQ(WithoutControls("rank 2 (10.10.1.3:4711), Grüße, ©…"),
            "rank 2 (10.10.1.3:4711), Grüße, ©…");
}

TEST(Shortened, ShortText_Stays) { EXPECT_EQ(Shortened("four", 4), "four"); }

TEST(Shortened, LongText_IsCutBetweenCharacters) {
  EXPECT_EQ(Shortened("abcdef", 4), "abcd…");
  EXPECT_EQ(Shortened("abcüf", 4), "abc…");
}

}  // namespace
}  // namespace gradwire
