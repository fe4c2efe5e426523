#include "common/options/option_values.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(OptionValues, Integer_BelowMinimum_NamesTheRange) {
  int field = 7;
  EXPECT_EQ(Integer(&field, 1).set("0").message(), "got '0', expected an integer of 1 or more");
  EXPECT_EQ(field, 7);
}

TEST(OptionValues, Integer_AboveMaximum_NamesTheRange) {
  int64_t field = 7;
  EXPECT_EQ(Integer(&field, 0, 9).set("10").message(), "got '10', expected an integer from 0 to 9");
}

TEST(OptionValues, Integer_BeyondInt_IsRefused) {
  int field = 7;
  EXPECT_FALSE(Integer(&field, 0).set("99999999999").ok());
}

TEST(OptionValues, Integer_Fraction_IsRefused) {
  uint64_t field = 7;
  EXPECT_FALSE(Integer(&field, 0).set("1.5").ok());
}

TEST(OptionValues, Integer_LargestSeed_IsTaken) {
  uint64_t field = 0;
  ASSERT_TRUE(Integer(&field, 0).set("18446744073709551615").ok());
  EXPECT_EQ(field, UINT64_MAX);
}

TEST(OptionValues, Integer_LeastAndMost_AreTaken) {
  int field = 7;
  const OptionValue value = Integer(&field, 3, 9);
  for (const char* text : {"3", "9"}) EXPECT_TRUE(value.set(text).ok()) << text;
  EXPECT_EQ(field, 9);
  EXPECT_FALSE(value.set("2").ok());
}

TEST(OptionValues, RealAbove_Bound_IsRefused) {
  double field = 1;
  EXPECT_EQ(RealAbove(&field, 0).set("0").message(), "got '0', expected a number above 0");
}

TEST(OptionValues, RealAbove_NotFinite_IsRefused) {
  double field = 1;
  EXPECT_FALSE(RealAbove(&field, 0).set("inf").ok());
  EXPECT_FALSE(RealAbove(&field, 0).set("nan").ok());
}

TEST(OptionValues, RealFrom_Bound_IsTaken) {
  double field = 1;
  ASSERT_TRUE(RealFrom(&field, 0).set("0").ok());
  EXPECT_EQ(field, 0);
}

TEST(OptionValues, Real_AnyNumber_TextIsTheShortestThatGivesItBack) {
  double field = 0;
  const OptionValue value = RealFrom(&field, 0);
  for (const char* text :
       {"0", "0.1", "0.0001", "30", "1e-05", "0.1234567", "0.1234568", "0.30000000000000004"}) {
    ASSERT_TRUE(value.set(text).ok()) << text;
    EXPECT_EQ(value.get(), text);
  }
}

TEST(OptionValues, RealFrom_Negative_IsRefused) {
  double field = 1;
  EXPECT_EQ(RealFrom(&field, 0).set("-1").message(), "got '-1', expected a number of 0 or more");
}

TEST(OptionValues, RealFromBelow_UpperBound_IsRefused) {
  double field = 0;
  EXPECT_EQ(RealFromBelow(&field, 0, 1).set("1").message(),
            "got '1', expected a number of 0 or more and below 1");
}

TEST(OptionValues, RealFromBelow_LowerBound_IsTakenAndNothingBelow) {
  double field = 0.5;
  const OptionValue value = RealFromBelow(&field, 0, 1);
  ASSERT_TRUE(value.set("0").ok());
  EXPECT_EQ(field, 0);
  EXPECT_FALSE(value.set("-0.1").ok());
}

TEST(OptionValues, RealBetween_Bounds_AreRefused) {
  double field = 0.5;
  const OptionValue value = RealBetween(&field, 0, 1);
  ASSERT_TRUE(value.set("0.25").ok());
  for (const char* text : {"0", "1"}) {
    EXPECT_EQ(value.set(text).message(),
              std::string("got '") + text + "', expected a number above 0 and below 1");
  }
  EXPECT_EQ(field, 0.25);
}

TEST(OptionValues, Switch_Words_AreUnderstood) {
  bool field = true;
  ASSERT_TRUE(Switch(&field).set("False").ok());
  EXPECT_FALSE(field);
  ASSERT_TRUE(Switch(&field).set("1").ok());
  EXPECT_TRUE(field);
  ASSERT_TRUE(Switch(&field).set("OFF").ok());
  EXPECT_FALSE(field);
  ASSERT_TRUE(Switch(&field).set("on").ok());
  EXPECT_TRUE(field);
}

TEST(OptionValues, Switch_OtherWord_IsRefused) {
  bool field = true;
  EXPECT_EQ(Switch(&field).set("maybe").message(), "got 'maybe', expected true or false");
}

TEST(OptionValues, Choice_NearName_IsSuggested) {
  std::string field = "none";
  EXPECT_EQ(Choice(&field, {"none", "all-reduce"}).set("allreduce").message(),
            "got 'allreduce', expected one of none, all-reduce; did you mean all-reduce?");
  EXPECT_EQ(field, "none");
}

TEST(OptionValues, Choice_OnlyOneName_IsNamed) {
  std::string field = "fp32";
  EXPECT_EQ(Choice(&field, {"fp32"}).set("bf16").message(), "got 'bf16', expected fp32");
}

TEST(OptionValues, ConnectAddress_PortZero_IsRefused) {
  std::string field;
  EXPECT_EQ(ConnectAddress(&field).set("host:0").message(),
            "got 'host:0', expected HOST:PORT with a port from 1 to 65535");
  EXPECT_TRUE(ConnectAddress(&field).set("host:1").ok());
}

TEST(OptionValues, ListenAddress_PortZero_IsTaken) {
  std::string field;
  ASSERT_TRUE(ListenAddress(&field).set("[::1]:0").ok());
  EXPECT_EQ(field, "[::1]:0");
}

TEST(OptionValues, ListenAddress_NoPort_IsRefused) {
  std::string field;
  EXPECT_EQ(ListenAddress(&field).set("host").message(),
            "got 'host', expected HOST:PORT with a port from 0 to 65535");
}

TEST(OptionValues, ListenAddressOrOff_Off_IsTaken) {
  std::string field;
  EXPECT_TRUE(ListenAddressOrOff(&field).set("off").ok());
}

TEST(OptionValues, ListenAddressOrOff_Other_SaysThatOffIsPossible) {
  std::string field;
  EXPECT_EQ(ListenAddressOrOff(&field).set("on").message(),
            "got 'on', expected HOST:PORT with a port from 0 to 65535, or off");
}

}  // namespace
}  // namespace gradwire
