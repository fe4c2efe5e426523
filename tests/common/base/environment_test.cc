#include "common/base/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/program_files.h"
#include "common/base/seldom.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(Environment, CurrentEnvironment_ValueWithEqualsSign_IsWhole) {
  setenv("GRADWIRE_TEST_VALUE", "a=b=c", 1);
  setenv("GRADWIRE_TEST_EMPTY", "", 1);
  const Environment environment = CurrentEnvironment();
  unsetenv("GRADWIRE_TEST_VALUE");
  unsetenv("GRADWIRE_TEST_EMPTY");
  EXPECT_EQ(Value(environment, "GRADWIRE_TEST_VALUE"), "a=b=c");
  EXPECT_EQ(environment.count("GRADWIRE_TEST_EMPTY"), 1);
}

TEST(Environment, Value_Missing_IsEmpty) { EXPECT_EQ(Value({{"A", "1"}}, "B"), ""); }

TEST(Environment, VariableOf_Options_AreInCapitals) {
  EXPECT_EQ(VariableOf("lr"), "GRADWIRE_LR");
  EXPECT_EQ(VariableOf("lr-step-epochs"), "GRADWIRE_LR_STEP_EPOCHS");
}

TEST(Environment, UnknownVariables_OthersPrograms_AreTheirs) {
  EXPECT_THAT(UnknownVariables({{"PATH", "/bin"}, {"MY_GRADWIRE_X", "1"}, {"GRADWIRE_LR", "1"}}),
              IsEmpty());
}

TEST(Environment, UnknownVariables_Misspelt_AreToldWithWhatWasMeant) {
  EXPECT_THAT(UnknownVariables({{"GRADWIRE_BATCHSIZE", "1"}, {"GRADWIRE_XYZZY", "2"}}),
              ElementsAre("unknown environment variable GRADWIRE_BATCHSIZE; did you mean "
                          "GRADWIRE_BATCH_SIZE?",
                          StartsWith("unknown environment variable GRADWIRE_XYZZY")));
}

// What all of them begin with brings nothing near.
TEST(Environment, UnknownVariables_NothingNear_SuggestNothing) {
  EXPECT_THAT(UnknownVariables({{"GRADWIRE_FOO", "1"}}),
              ElementsAre("unknown environment variable GRADWIRE_FOO"));
}

TEST(Environment, KnownVariables_OfTheSource_AreSortedAndNoneIsTwice) {
  std::ifstream file(std::string(GRADWIRE_SOURCE_DIR) + "/common/base/environment.cc");
  std::stringstream text;
  text << file.rdbuf();
  const std::string source = text.str();
  const std::string list = source.substr(0, source.find("names->push_back"));
  const std::regex name("\"([a-z][a-z-]*)\"");
  std::vector<std::string> names;
  for (std::sregex_iterator it(list.begin(), list.end(), name), end; it != end; ++it) {
    names.push_back((*it)[1]);
  }
  EXPECT_GT(names.size(), 100);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(ProgramFiles, ProgramDir_OfThisTest_IsWhereItStands) {
  EXPECT_TRUE(std::ifstream(ProgramDir() + "/common_tests").good()) << ProgramDir();
}

TEST(ProgramFiles, PrivateFile_BesideTheProgram_GoesBeforeTheInstalledOne) {
  EXPECT_EQ(PrivateFile("common_tests"), ProgramDir() + "/common_tests");
  EXPECT_THAT(PrivateFile("no-such-program"), EndsWith("/libexec/gradwire/no-such-program"));
}

TEST(Seldom, MayLog_ManyAtOnce_OnlyTheFirst) {
  Seldom seldom;
  int left_out = -1;
  EXPECT_TRUE(seldom.MayLog(&left_out));
  EXPECT_EQ(left_out, 0);
  left_out = -1;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(seldom.MayLog(&left_out));
  EXPECT_EQ(left_out, -1);
}

}  // namespace
}  // namespace gradwire
