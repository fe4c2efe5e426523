#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/pages/run_pages.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string FileText(absl::string_view path) {
  std::ifstream file(absl::StrCat(GRADWIRE_SOURCE_DIR, "/", path));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(FindWebAsset, EmptyName_IsThePage) {
  const WebAsset* page = FindWebAsset("");
  ASSERT_NE(page, nullptr);
  EXPECT_EQ(page->content_type, "text/html; charset=utf-8");
  EXPECT_EQ(page->body, FileText("coordinator/web/index.html"));
}

TEST(FindWebAsset, Script_IsTheFileByteForByte) {
  const WebAsset* script = FindWebAsset("page.js");
  ASSERT_NE(script, nullptr);
  EXPECT_EQ(script->content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(script->body, FileText("coordinator/web/page.js"));
}

TEST(FindWebAsset, ChartLibrary_IsWholeWithoutItsMap) {
  const WebAsset* library = FindWebAsset("dygraph.min.js");
  ASSERT_NE(library, nullptr);
  EXPECT_GT(library->body.size(), 100000);
  EXPECT_THAT(std::string(library->body), HasSubstr("(MIT)"));
  EXPECT_THAT(std::string(library->body), Not(HasSubstr("sourceMappingURL")));
}

TEST(FindWebAsset, WhatThePageNames_IsThere) {
  const std::string page(FindWebAsset("")->body);
  const std::regex reference("(?:src|href)=\"([^\"]*)\"");
  const std::string prefix = "assets/";
  int references = 0;
  for (std::sregex_iterator at(page.begin(), page.end(), reference), end; at != end; ++at) {
    const std::string target = (*at)[1];
    ASSERT_EQ(target.compare(0, prefix.size(), prefix), 0) << target;
    EXPECT_NE(FindWebAsset(target.substr(prefix.size())), nullptr) << target;
    ++references;
  }
  EXPECT_GE(references, 4);
}

TEST(FindWebAsset, UnknownName_IsNull) {
  EXPECT_EQ(FindWebAsset("nothing.js"), nullptr);
  EXPECT_EQ(FindWebAsset("../main.cc"), nullptr);
  EXPECT_EQ(FindWebAsset("page.js/"), nullptr);
}

}  // namespace
}  // namespace gradwire
