#include <gtest/gtest.h>

#include "coordinator/membership/participant.h"

namespace gradwire {
namespace {

constexpr LeaseLimits kLimits = {absl::Seconds(1), absl::Seconds(10)};
constexpr absl::Duration kMillisecond = absl::Milliseconds(1);

// Of a member that was heard at gaps of these milliseconds, each so many times.
HeartbeatGaps Heard(std::initializer_list<std::pair<int, int>> gaps) {
  HeartbeatGaps heard;
  absl::Time now = absl::FromUnixSeconds(1000);
  heard.OnHeartbeat(now);
  for (const auto& [milliseconds, times] : gaps) {
    for (int i = 0; i < times; ++i) heard.OnHeartbeat(now += milliseconds * kMillisecond);
  }
  return heard;
}

TickLag Late(int milliseconds) {
  TickLag lag;
  lag.OnTick(kTick + milliseconds * kMillisecond);
  return lag;
}

TEST(RecentDurations, Percentile_IsTheNearestRank) {
  RecentDurations durations(200);
  EXPECT_EQ(durations.Percentile(99), absl::ZeroDuration());
  for (int i = 200; i >= 1; --i) durations.Add(i * kMillisecond);
  EXPECT_EQ(durations.Percentile(99), 198 * kMillisecond);
  EXPECT_EQ(durations.Percentile(50), 100 * kMillisecond);
  EXPECT_EQ(durations.Percentile(100), 200 * kMillisecond);
}

TEST(RecentDurations, Window_ForgetsTheOldest) {
  RecentDurations durations(3);
  for (const int milliseconds : {900, 1, 2, 3}) durations.Add(milliseconds * kMillisecond);
  EXPECT_EQ(durations.size(), 3u);
  EXPECT_EQ(durations.Percentile(100), 3 * kMillisecond);
}

TEST(LeaseFor, MemberThatIsHeardOften_HasTheLeast) {
  EXPECT_EQ(LeaseFor(Heard({{50, 100}}), TickLag(), kLimits), absl::Seconds(1));
}

TEST(LeaseFor, MemberWithGaps_HasEightTimesThese) {
  EXPECT_EQ(LeaseFor(Heard({{250, 100}}), TickLag(), kLimits), absl::Seconds(2));
  EXPECT_EQ(LeaseFor(Heard({{250, 100}, {600, 3}}), TickLag(), kLimits), absl::Seconds(4.8));
}

TEST(LeaseFor, OneLongGapOfManyShortOnes_IsPassedOver) {
  EXPECT_EQ(LeaseFor(Heard({{250, 150}, {5000, 1}}), TickLag(), kLimits), absl::Seconds(2));
}

TEST(LeaseFor, LongGapsOfAWhileAgo_AreForgotten) {
  EXPECT_EQ(LeaseFor(Heard({{900, 50}, {250, 240}}), TickLag(), kLimits), absl::Seconds(2));
}

TEST(LeaseFor, NoMemberHasMoreThanTheMost) {
  EXPECT_EQ(LeaseFor(Heard({{5000, 50}}), TickLag(), kLimits), absl::Seconds(10));
  EXPECT_EQ(LeaseFor(Heard({{250, 50}}), Late(30000), kLimits), absl::Seconds(10));
}

TEST(LeaseFor, MemberThatIsNotKnownYet_HasTheMost) {
  EXPECT_EQ(LeaseFor(HeartbeatGaps(), TickLag(), kLimits), absl::Seconds(10));
  EXPECT_EQ(LeaseFor(Heard({{50, 19}}), TickLag(), kLimits), absl::Seconds(10));
  EXPECT_EQ(LeaseFor(Heard({{50, 20}}), TickLag(), kLimits), absl::Seconds(1));
}

TEST(LeaseFor, CoordinatorThatIsLate_HasPatienceWithAll) {
  EXPECT_EQ(LeaseFor(Heard({{50, 100}}), Late(800), kLimits), absl::Seconds(3.2));
  EXPECT_EQ(LeaseFor(Heard({{250, 100}}), Late(800), kLimits), absl::Seconds(3.2));
  EXPECT_EQ(LeaseFor(Heard({{600, 100}}), Late(800), kLimits), absl::Seconds(4.8));
}

TEST(LeaseFor, MostBelowTheLeast_IsTheMost) {
  EXPECT_EQ(LeaseFor(Heard({{50, 100}}), TickLag(), {absl::Seconds(1), absl::Seconds(0.5)}),
            absl::Seconds(0.5));
}

TEST(TickLag, Longest_IsOfTheLatestTenSecondsAndNeverNegative) {
  TickLag lag;
  EXPECT_EQ(lag.longest(), absl::ZeroDuration());
  lag.OnTick(kTick / 2);
  EXPECT_EQ(lag.longest(), absl::ZeroDuration());
  lag.OnTick(kTick + absl::Seconds(2));
  for (int i = 0; i < 99; ++i) lag.OnTick(kTick);
  EXPECT_EQ(lag.longest(), absl::Seconds(2));
  lag.OnTick(kTick);
  EXPECT_EQ(lag.longest(), absl::ZeroDuration());
}

TEST(HeartbeatGaps, PauseOfTheCoordinator_MakesNoGapLonger) {
  HeartbeatGaps gaps;
  absl::Time now = absl::FromUnixSeconds(1000);
  for (int i = 0; i <= 20; ++i) gaps.OnHeartbeat(now += absl::Milliseconds(250));
  now += absl::Seconds(30);
  gaps.OnPause(absl::Seconds(30), now);
  gaps.OnHeartbeat(now + absl::Milliseconds(250));
  EXPECT_EQ(gaps.Usual(), absl::Milliseconds(250));
}

}  // namespace
}  // namespace gradwire
