#include <gtest/gtest.h>

#include "common/base/clock.h"

namespace gradwire {
namespace {

constexpr absl::Duration kSecond = absl::Seconds(1);

TEST(PacedSleep, WokenLate_TheNextSleepIsShorter) {
  PacedSleep sleep;
  const absl::Time begin = absl::FromUnixSeconds(100);
  EXPECT_EQ(sleep.EndOf(begin, kSecond), begin + kSecond);
  sleep.Settle(begin + kSecond, begin + kSecond + absl::Milliseconds(30));
  // What lies between the two is not made up for.
  const absl::Time next = begin + 5 * kSecond;
  EXPECT_EQ(sleep.EndOf(next, kSecond), next + absl::Milliseconds(970));
}

TEST(PacedSleep, WokenVeryLate_SeveralSleepsMakeUpForIt) {
  PacedSleep sleep;
  absl::Time now = absl::FromUnixSeconds(100);
  sleep.Settle(now, now + 3 * kSecond);
  for (int i = 2; i >= 0; --i) {
    sleep.Settle(sleep.EndOf(now, kSecond), now);  // over before it began
    EXPECT_EQ(sleep.owed(), i * kSecond);
  }
}

TEST(PacedSleep, ManySleeps_TakeNoLessThanTheyShould) {
  PacedSleep sleep;
  const absl::Time begin = SteadyNow();
  for (int i = 0; i < 50; ++i) sleep.For(absl::Microseconds(200));
  EXPECT_GE(SteadyNow() - begin, absl::Milliseconds(10));
}

}  // namespace
}  // namespace gradwire
