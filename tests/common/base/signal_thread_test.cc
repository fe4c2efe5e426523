#include "common/base/signal_thread.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <future>

namespace gradwire {
namespace {

// In a process of its own, so that this one's signals stay as they are.
void ExitWithSignalReceived(int sent) {
  BlockStopSignals();
  std::promise<int> promise;
  int received = 0;
  {
    SignalThread signals([&promise](int signal) { promise.set_value(signal); });
    kill(getpid(), sent);
    received = promise.get_future().get();
    if (signals.received() != received) std::_Exit(1);
  }
  std::_Exit(received);
}

TEST(SignalThreadDeathTest, Sigterm_IsGivenToTheCallback) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ExitWithSignalReceived(SIGTERM), ::testing::ExitedWithCode(SIGTERM), "");
}

TEST(SignalThreadDeathTest, Sigint_IsGivenToTheCallback) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ExitWithSignalReceived(SIGINT), ::testing::ExitedWithCode(SIGINT), "");
}

// Exits with the signal that counts of two, both of which are given to the callback.
void ExitAfterBoth(int first, int second) {
  BlockStopSignals();
  BlockUserSignal();
  std::promise<int> promises[2];
  int given = 0, received = 0;
  {
    SignalThread signals([&](int signal) { promises[given++].set_value(signal); });
    for (const int sent : {first, second}) {
      kill(getpid(), sent);
      if (promises[sent == first ? 0 : 1].get_future().get() != sent) std::_Exit(1);
    }
    received = signals.received();
  }
  std::_Exit(received);
}

TEST(SignalThreadDeathTest, TwoSignals_TheFirstCounts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ExitAfterBoth(SIGINT, SIGTERM), ::testing::ExitedWithCode(SIGINT), "");
}

// A checkpoint was asked for, and later an end.
TEST(SignalThreadDeathTest, UserSignalBeforeASigterm_IsGivenAndDoesNotCount) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ExitAfterBoth(SIGUSR1, SIGTERM), ::testing::ExitedWithCode(SIGTERM), "");
}

TEST(SignalThreadDeathTest, NoSignal_EndsAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        BlockStopSignals();
        {
          SignalThread signals([](int) { std::_Exit(1); });
        }
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace gradwire
