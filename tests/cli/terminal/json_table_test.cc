#include "cli/terminal/json_table.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

const Json kRow = Json::parse(R"({"name": "a", "time": {"mean": 0.25}, "none": null})");

TEST(NumberAt, NumberDeepInside_IsFound) { EXPECT_EQ(NumberAt(kRow, "/time/mean"), 0.25); }

TEST(NumberAt, MissingNullOrText_IsNone) {
  EXPECT_FALSE(NumberAt(kRow, "/time/p50").has_value());
  EXPECT_FALSE(NumberAt(kRow, "/none").has_value());
  EXPECT_FALSE(NumberAt(kRow, "/name").has_value());
}

TEST(NumberAt, PathThroughNoObject_IsNone) {
  EXPECT_FALSE(NumberAt(kRow, "/name/mean").has_value());
  EXPECT_FALSE(NumberAt(Json::parse("[1]"), "/name").has_value());
}

TEST(TextAt, Text_IsFound) { EXPECT_EQ(TextAt(kRow, "/name"), "a"); }

TEST(TextAt, MissingOrNumber_IsEmpty) {
  EXPECT_EQ(TextAt(kRow, "/other"), "");
  EXPECT_EQ(TextAt(kRow, "/time/mean"), "");
}

TEST(AlignedTable, Columns_AreRightAlignedInTheirUnits) {
  EXPECT_EQ(AlignedTable({{"name", "/name"}, {"mean ms", "/time/mean", 1000, 1}}, {kRow}),
            "    name  mean ms\n"
            "       a    250.0\n");
}

TEST(AlignedTable, MissingValues_AreDashes) {
  EXPECT_EQ(AlignedTable({{"x", "/x"}, {"none", "/none"}}, {kRow}),
            "       x    none\n"
            "       -       -\n");
}

TEST(AlignedTable, LongValue_WidensItsColumn) {
  EXPECT_EQ(AlignedTable({{"address", "/address"}}, {{{"address", "10.10.1.1:29400"}}}),
            "          address\n"
            "  10.10.1.1:29400\n");
}

TEST(AlignedTable, NoRows_HasItsTitles) {
  EXPECT_EQ(AlignedTable({{"name", "/name"}}, {}), "    name\n");
}

}  // namespace
}  // namespace gradwire
