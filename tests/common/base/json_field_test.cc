#include "common/base/json_field.h"

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

}  // namespace
}  // namespace gradwire
