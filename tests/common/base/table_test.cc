#include "common/base/table.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

const std::vector<TableColumn>& Columns() {
  static const auto* const columns =
      new std::vector<TableColumn>{{"size", "size (B)"}, {"name", "name"}, {"time", "time (s)", 2}};
  return *columns;
}

TableRows Rows() {
  return {{{"size", 36924456}, {"name", "ring"}, {"time", 0.4567}},
          {{"size", 4}, {"name", "a,\"b\""}, {"time", nullptr}}};
}

TableRows DeepRows() { return {{{"name", "a"}, {"time", {{"mean", 0.25}}}, {"none", nullptr}}}; }

TEST(TextTable, Columns_AreRightAlignedInTheirUnits) {
  EXPECT_EQ(TextTable({{"name", "name"}, {"time/mean", "mean ms", 1, 1000}}, DeepRows()),
            "    name  mean ms\n"
            "       a    250.0\n");
}

TEST(TextTable, MissingValues_AreDashes) {
  EXPECT_EQ(TextTable({{"x", "x"}, {"none", "none"}}, DeepRows()),
            "       x    none\n"
            "       -       -\n");
}

TEST(TextTable, LongValue_WidensItsColumn) {
  EXPECT_EQ(TextTable({{"address", "address"}}, {{{"address", "10.10.1.1:29400"}}}),
            "          address\n"
            "  10.10.1.1:29400\n");
}

TEST(TextTable, NoRows_HasItsTitles) { EXPECT_EQ(TextTable({{"name", "name"}}, {}), "    name\n"); }

TEST(MarkdownTable, NumbersTextsAndGaps_AreLinedUp) {
  EXPECT_EQ(MarkdownTable(Columns(), Rows()),
            "|   size (B) | name  | time (s) |\n"
            "| ---------: | ----- | -------: |\n"
            "| 36,924,456 | ring  |     0.46 |\n"
            "|          4 | a,\"b\" |          |\n");
}

TEST(MarkdownTable, NoRows_IsAHead) {
  EXPECT_EQ(MarkdownTable({{"a", "a"}}, {}), "|   a |\n| --: |\n");
}

TEST(CsvTable, NumbersTextsAndGaps_AreExact) {
  EXPECT_EQ(CsvTable(Columns(), Rows()),
            "size,name,time\n"
            "36924456,ring,0.4567\n"
            "4,\"a,\"\"b\"\"\",\n");
}

}  // namespace
}  // namespace gradwire
