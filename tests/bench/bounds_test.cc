#include <gtest/gtest.h>

#include "bench/operations.h"

namespace gradwire {
namespace {

constexpr double kVgg11 = 36924456;

TEST(LoadOfAverage, Coordinator_CarriesEveryGradient) {
  const LinkLoad load = LoadOfAverage("coordinator", 4, 100);
  EXPECT_EQ(load.worker_bytes, 100);
  EXPECT_EQ(load.coordinator_bytes, 400);
}

TEST(LoadOfAverage, RingAndSharded_MoveTheLeastThatRanksCan) {
  for (const char* backend : {"ring", "sharded", "gloo"}) {
    const LinkLoad load = LoadOfAverage(backend, 4, 100);
    EXPECT_EQ(load.worker_bytes, 150) << backend;
    EXPECT_EQ(load.coordinator_bytes, 0) << backend;
  }
}

TEST(LoadOfAverage, Tree_LoadsItsRootByItsChildren) {
  EXPECT_EQ(LoadOfAverage("tree", 2, 100).worker_bytes, 100);
  EXPECT_EQ(LoadOfAverage("tree", 5, 100).worker_bytes, 300);
  EXPECT_EQ(LoadOfAverage("tree", 8, 100).worker_bytes, 300);
}

TEST(LoadOfAverage, OneRank_MovesNothing) {
  EXPECT_EQ(LoadOfAverage("ring", 1, 100).worker_bytes, 0);
  EXPECT_EQ(LoadOfAverage("tree", 1, 100).worker_bytes, 0);
}

// tests/conformance/hop_plan_test.cc has the same bytes of the routes themselves.
TEST(LoadOfAverage, Ring_AMeanEntersEachHostOnce) {
  EXPECT_EQ(LoadOfAverage("ring", 4, 100, 2).worker_bytes, 150);
  EXPECT_EQ(LoadOfAverage("ring", 4, 100, 2).host_bytes, 125);
  EXPECT_EQ(LoadOfAverage("ring", 8, 100, 4).host_bytes, 137.5);
  EXPECT_EQ(LoadOfAverage("ring", 4, 100, 3).host_bytes, 150);  // the last one is alone
  EXPECT_EQ(LoadOfAverage("ring", 4, 100, 4).host_bytes, 0);
  EXPECT_EQ(LoadOfAverage("ring", 4, 100, 9).host_bytes, 0);
}

TEST(LoadOfAverage, SeveralWorkersOnAHost_ItsLinkCarriesTheirBytesWithOthers) {
  EXPECT_EQ(LoadOfAverage("sharded", 4, 100, 2).host_bytes, 200);
  EXPECT_EQ(LoadOfAverage("sharded", 5, 100, 4).host_bytes, 160);
  EXPECT_EQ(LoadOfAverage("sharded", 5, 100, 2).host_bytes, 240);  // the last one is alone
  EXPECT_EQ(LoadOfAverage("coordinator", 4, 100, 2).host_bytes, 200);
  EXPECT_EQ(LoadOfAverage("coordinator", 4, 100, 2).coordinator_bytes, 400);
  EXPECT_EQ(LoadOfAverage("coordinator", 4, 100, 9).host_bytes, 400);
  EXPECT_EQ(LoadOfAverage("tree", 8, 100, 2).host_bytes, 200);
  EXPECT_EQ(LoadOfAverage("tree", 8, 100, 4).host_bytes, 100);
  EXPECT_EQ(LoadOfAverage("memory", 4, 100, 2).host_bytes, 0);
  EXPECT_EQ(LoadOfAverage("gloo", 4, 100, 2).host_bytes, absl::nullopt);
  EXPECT_EQ(LoadOfAverage("gloo", 4, 100).host_bytes, 150);
}

TEST(LoadOfBroadcast, SeveralWorkersOnAHost_TheRingBringsThemOnce) {
  EXPECT_EQ(LoadOfBroadcast("ring", 4, 10, 2).host_bytes, 10);
  EXPECT_EQ(LoadOfBroadcast("sharded", 4, 10, 2).host_bytes, 20);
  EXPECT_EQ(LoadOfBroadcast("ring", 4, 10, 4).host_bytes, 0);
  EXPECT_EQ(LoadOfBroadcast("gloo", 4, 10, 2).host_bytes, absl::nullopt);
}

TEST(LoadOfBroadcast, Ring_EachOtherRankGetsThemOnce) {
  EXPECT_EQ(LoadOfBroadcast("ring", 4, 10).worker_bytes, 10);
  EXPECT_EQ(LoadOfBroadcast("ring", 1, 10).worker_bytes, 0);
}

TEST(LoadOfBroadcast, Tree_RootSendsThemToItsChildren) {
  EXPECT_EQ(LoadOfBroadcast("tree", 4, 10).worker_bytes, 20);
}

TEST(LoadOfBroadcast, Coordinator_SendsThemToAll) {
  EXPECT_EQ(LoadOfBroadcast("coordinator", 4, 10).coordinator_bytes, 40);
}

TEST(LeastSeconds, Vgg11OnFourHostsAt1Gbit_CountsHeaders) {
  EXPECT_NEAR(LeastSeconds(LoadOfAverage("ring", 4, kVgg11), 1), 0.463, 0.0005);
  EXPECT_NEAR(LeastSeconds(LoadOfAverage("coordinator", 4, kVgg11), 1), 1.235, 0.0005);
}

TEST(LeastSeconds, TenTimesTheLink_TakesATenth) {
  const LinkLoad load = LoadOfAverage("ring", 4, kVgg11);
  EXPECT_DOUBLE_EQ(LeastSeconds(load, 10) * 10, LeastSeconds(load, 1));
}

TEST(WireBytes, HalfTypes_AreTwo) {
  EXPECT_EQ(WireBytes("fp32"), 4);
  EXPECT_EQ(WireBytes("bf16"), 2);
  EXPECT_EQ(WireBytes("fp16"), 2);
}

}  // namespace
}  // namespace gradwire
