#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "common/base/mutex.h"

namespace gradwire {
namespace {

TEST(BlockingCounter, Wait_OfNothing_ReturnsAtOnce) {
  BlockingCounter countdown(0);
  EXPECT_TRUE(countdown.Wait().ok());
  EXPECT_TRUE(countdown.WaitUntil(absl::InfinitePast()));
}

TEST(BlockingCounter, Wait_SeveralErrors_GivesTheFirst) {
  BlockingCounter countdown(4);
  countdown.Done(absl::OkStatus());
  countdown.Done(absl::AbortedError("first"));
  countdown.Done(absl::InternalError("second"));
  countdown.Done(absl::OkStatus());
  EXPECT_EQ(countdown.Wait(), absl::AbortedError("first"));
}

TEST(BlockingCounter, WaitUntil_OneLeft_FalseOnceTheDeadlineHasPassed) {
  BlockingCounter countdown(2);
  countdown.Done(absl::OkStatus());
  EXPECT_FALSE(countdown.WaitUntil(SteadyNow() + absl::Milliseconds(5)));
  EXPECT_FALSE(countdown.WaitUntil(absl::InfinitePast()));
  countdown.Done(absl::OkStatus());
  EXPECT_TRUE(countdown.WaitUntil(absl::InfinitePast()));
}

TEST(BlockingCounter, Done_OnOtherThreads_WakesAllWhoWait) {
  constexpr int kThreads = 8;
  BlockingCounter countdown(kThreads);
  std::vector<std::thread> threads;
  threads.emplace_back([&] { EXPECT_TRUE(countdown.Wait().ok()); });
  threads.emplace_back([&] { EXPECT_TRUE(countdown.WaitUntil(absl::InfiniteFuture())); });
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] { countdown.Done(absl::OkStatus()); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace gradwire
