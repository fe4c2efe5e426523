#include "worker/options/sync_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
    EXPECT_EQ(ErrorOf({"--sync", sync}),
              std::string("--sync: got '") + sync +
                  "', expected local-sgd:H, with H the steps from one exchange to the next, 1 or "
                  "more");
  }
  EXPECT_EQ(ErrorOf({"--sync", "diloco"}),
            "--sync: got 'diloco', expected diloco:H, with H the steps from one exchange to the "
            "next, 1 or more");
}

TEST(SyncChoice, IntervalOfAnotherSync_SaysThatItTakesNone) {
  EXPECT_EQ(ErrorOf({"--sync", "ddp:3"}),
            "--sync: got 'ddp:3', expected ddp, which exchanges in every step and takes no "
            "interval");
}

TEST(SyncChoice, UnknownName_ListsThem) {
  EXPECT_THAT(ErrorOf({"--sync", "local-sdg:3"}), HasSubstr("got 'local-sdg', expected one of"));
}

TEST(SyncChoice, DelayAsLongAsTheInterval_BadUsage) {
  EXPECT_EQ(ErrorOf({"--sync", "local-sgd:4", "--delay", "4"}),
            "--delay: got 4 with --sync local-sgd:4 (--sync), expected fewer steps than lie "
            "between two exchanges, 0 to 3");
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

}  // namespace
}  // namespace gradwire
