#include "common/base/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/logging.h"

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

// Of rows that this test does not link, on one line and on two; and the one of no option.
TEST(Environment, UnknownVariables_RowsOfAllPrograms_AreKnown) {
  for (const char* name : {"BATCH_SIZE", "COMPUTE_SECONDS", "CSV", "INFERENCE", "LEASE_SECONDS",
                           "OUTER_LR", "PER_HOST", "PROGRESS", "SCALE", "TLS_CERT", "WATCH"}) {
    EXPECT_THAT(UnknownVariables({{std::string("GRADWIRE_") + name, "1"}}), IsEmpty());
  }
}

TEST(ProgramFiles, ProgramDir_OfThisTest_IsWhereItStands) {
  EXPECT_TRUE(std::ifstream(ProgramDir() + "/common_tests").good()) << ProgramDir();
}

TEST(ProgramFiles, PrivateFile_BesideTheProgram_GoesBeforeTheInstalledOne) {
  EXPECT_EQ(PrivateFile("common_tests"), ProgramDir() + "/common_tests");
  EXPECT_THAT(PrivateFile("no-such-program"), EndsWith("/libexec/gradwire/no-such-program"));
}

TEST(LogThrottle, MayLog_ManyAtOnce_OnlyTheFirst) {
  LogThrottle seldom;
  int left_out = -1;
  EXPECT_TRUE(seldom.MayLog(&left_out));
  EXPECT_EQ(left_out, 0);
  left_out = -1;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(seldom.MayLog(&left_out));
  EXPECT_EQ(left_out, -1);
}

}  // namespace
}  // namespace gradwire
