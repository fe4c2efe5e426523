// --wire bf16 and fp16 in whole runs of the real programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/support/launch.h"

namespace gradwire::testing {
namespace {

using ::testing::SizeIs;

Options TinyWireRun(const std::string& backend, const std::string& wire) {
  return TinyRun(3) + Options{"--sync", "all-reduce", "--backend", backend, "--wire", wire};
}

TEST(Wire, Bf16_ExactBackendsAndBucketSizes_OneHash) {
  const std::string expected = HashOf(3, TinyWireRun("coordinator", "bf16"));
  EXPECT_EQ(HashOf(3, TinyWireRun("sharded", "bf16") + Options{"--bucket-cap-mb", "1"}), expected);
  EXPECT_NE(HashOf(3, TinyWireRun("coordinator", "fp32")), expected);
}

TEST(LongWire, Halves_RingRunAgain_OneHash) {
  for (const char* wire : {"bf16", "fp16"}) {
    EXPECT_EQ(HashOf(3, TinyWireRun("ring", wire)), HashOf(3, TinyWireRun("ring", wire))) << wire;
  }
}

TEST(Wire, Bf16_Summary_NamesTheTypeAndCountsHalfTheBytes) {
  const LaunchResult run = RunLaunch(2, TinyWireRun("coordinator", "bf16"));
  ASSERT_THAT(run.ranks, SizeIs(2)) << run.err;
  EXPECT_EQ(run.ranks[0]["wire"], "bf16");
  constexpr int64_t kGradients = 3 * int64_t{36'924'456} / 2;
  EXPECT_GE(run.ranks[1]["bytes_sent"].get<int64_t>(), kGradients);
  EXPECT_LE(run.ranks[1]["bytes_sent"].get<int64_t>(), kGradients + 5 * 22'080);
}

TEST(Wire, Fp16_Losses_AreNearThoseOfFp32) {
  const LaunchResult full = RunLaunch(2, TinyWireRun("coordinator", "fp32"));
  const LaunchResult half = RunLaunch(2, TinyWireRun("coordinator", "fp16"));
  ASSERT_THAT(full.ranks, SizeIs(2)) << full.err;
  ASSERT_THAT(half.ranks, SizeIs(2)) << half.err;
  const auto expected = full.ranks[0]["losses"].get<std::vector<double>>();
  const auto got = half.ranks[0]["losses"].get<std::vector<double>>();
  ASSERT_EQ(got.size(), expected.size());
  EXPECT_EQ(got[0], expected[0]);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 0.02 * expected[i]);
}

}  // namespace
}  // namespace gradwire::testing
