#include "worker/options/sync_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/worker/options/parse.h"
#include "worker/options/traits.h"

namespace gradwire {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::Parse;

TEST(SyncChoice, Interval_OfAPeriodicSync_IsTaken) {
  const auto parsed = Parse({"--sync", "local-sgd:10", "--delay", "9"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.sync, "local-sgd:10");
  EXPECT_EQ(parsed->options.backend, "auto");
  EXPECT_EQ(*IntervalOfSync(parsed->options.sync), 10);
  EXPECT_TRUE(TraitsOfSync(parsed->options.sync).periodic);
}

TEST(SyncChoice, WrongInterval_SaysWhatIsExpected) {
  for (const char* sync : {"local-sgd", "local-sgd:", "local-sgd:0", "local-sgd:-3", "local-sgd:x",
                           "local-sgd:2.5", "local-sgd:3:4", "local-sgd:99999999999999999999"}) {
    EXPECT_EQ(ErrorOf({"--sync", sync}), std::string("--sync: got '") + sync +
                                             "', expected local-sgd:H, where H is the number of "
                                             "steps between two exchanges, 1 or more");
  }
  EXPECT_EQ(ErrorOf({"--sync", "diloco"}),
            "--sync: got 'diloco', expected diloco:H, where H is the number of steps between two "
            "exchanges, 1 or more");
}

TEST(SyncChoice, IntervalOfAnotherSync_SaysThatItTakesNone) {
  EXPECT_EQ(ErrorOf({"--sync", "ddp:3"}),
            "--sync: got 'ddp:3', expected ddp, which exchanges in every step and has no interval");
}

TEST(SyncChoice, UnknownName_ListsThem) {
  EXPECT_THAT(ErrorOf({"--sync", "local-sdg:3"}), HasSubstr("got 'local-sdg', expected one of"));
}

TEST(SyncChoice, DelayAsLongAsTheInterval_BadUsage) {
  EXPECT_EQ(ErrorOf({"--sync", "local-sgd:4", "--delay", "4"}),
            "--delay: got 4 with --sync local-sgd:4 (--sync), expected fewer steps than between "
            "two exchanges, 0 to 3");
}

TEST(SyncChoice, OptionsOfAnotherSync_BadUsage) {
  EXPECT_EQ(ErrorOf({"--delay", "1"}),
            "--delay: got it without --sync local-sgd:H or diloco:H, expected both or neither");
  EXPECT_EQ(ErrorOf({"--sync", "local-sgd:4", "--outer-lr", "1"}),
            "--outer-lr: got it without --sync diloco:H, expected both or neither");
  EXPECT_EQ(ErrorOf({"--outer-momentum", "0.5"}),
            "--outer-momentum: got it without --sync diloco:H, expected both or neither");
}

TEST(SyncChoice, OuterMomentumOfOne_BadUsage) {
  EXPECT_THAT(ErrorOf({"--sync", "diloco:4", "--outer-momentum", "1"}), HasSubstr("got '1'"));
  EXPECT_THAT(ErrorOf({"--sync", "diloco:4", "--outer-lr", "0"}), HasSubstr("got '0'"));
}

TEST(SyncChoice, CompressionOfModels_BadUsage) {
  EXPECT_EQ(
      ErrorOf({"--sync", "diloco:4", "--compress", "int8"}),
      "--compress: got int8 with --sync diloco:4 (--sync), which exchanges models, expected a "
      "sync that exchanges gradients, or --wire bf16");
}

TEST(SyncChoice, Barrier_BadUsage) {
  EXPECT_THAT(ErrorOf({"--sync", "diloco:4", "--barrier"}), HasSubstr("got sync diloco:4"));
}

TEST(SyncChoice, Staleness_OfAServedModel_IsTaken) {
  for (const auto& [text, steps] :
       std::map<std::string, int64_t>{{"0", 0}, {"3", 3}, {"inf", -1}}) {
    const auto parsed = Parse({"--sync", "parameter-server", "--staleness", text});
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->options.staleness, steps);
    EXPECT_EQ(parsed->options.backend, "coordinator");
    EXPECT_EQ(StalenessText(parsed->options.staleness), text);
  }
}

TEST(SyncChoice, WrongStaleness_SaysWhatIsExpected) {
  for (const char* text : {"-1", "x", "1.5", "infinite", "99999999999999999999"}) {
    EXPECT_EQ(ErrorOf({"--sync", "parameter-server", "--staleness", text}),
              std::string("--staleness: got '") + text +
                  "', expected a number of steps, 0 or more, or inf");
  }
}

TEST(SyncChoice, StalenessOfAnotherSync_BadUsage) {
  EXPECT_EQ(ErrorOf({"--staleness", "1"}),
            "--staleness: got it without --sync parameter-server, expected both or neither");
}

TEST(SyncChoice, WhatAServedModelCannotDo_BadUsage) {
  for (const auto& [option, value] : {std::pair<const char*, const char*>{"backend", "ring"},
                                      {"wire", "bf16"},
                                      {"compress", "int8"},
                                      {"connections", "2"},
                                      {"groups", "2"}}) {
    EXPECT_THAT(ErrorOf({"--sync", "parameter-server", std::string("--") + option, value}),
                HasSubstr(std::string("--") + option +
                          ": got it with --sync parameter-server (--sync), expected "));
  }
}

}  // namespace
}  // namespace gradwire
