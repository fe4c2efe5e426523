#include "common/base/table.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

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

}  // namespace
}  // namespace gradwire
