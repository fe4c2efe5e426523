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
