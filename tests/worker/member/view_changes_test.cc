#include "worker/member/view_changes.h"

#include <gtest/gtest.h>

#include <thread>

#include "common/base/clock.h"

namespace gradwire {
namespace {

View ViewOf(uint64_t generation) {
  View view;
  view.generation = Generation(generation);
  return view;
}

TEST(ViewChanges, AwaitSealed_SealedBefore_DoesNotWait) {
  ViewChanges changes;
  changes.OnSealed(Step(3));
  EXPECT_EQ(changes.AwaitSealed(Step(2), absl::InfiniteFuture()), absl::OkStatus());
  EXPECT_EQ(changes.AwaitSealed(Step(3), absl::InfiniteFuture()), absl::OkStatus());
}

TEST(ViewChanges, AwaitSealed_SealedThenAView_IsSealed) {
  ViewChanges changes;
  changes.OnSealed(Step(0));
  changes.OnNewView(ViewOf(2));
  EXPECT_EQ(changes.AwaitSealed(Step(0), absl::InfiniteFuture()), absl::OkStatus());
  EXPECT_TRUE(absl::IsAborted(*changes.AwaitSealed(Step(1), absl::InfiniteFuture())));
}

TEST(ViewChanges, AwaitSealed_Waiting_WakesWhenItIs) {
  ViewChanges changes;
  absl::Status status = absl::UnknownError("still waiting");
  std::thread waiting([&] { status = *changes.AwaitSealed(Step(0), absl::InfiniteFuture()); });
  changes.OnSealed(Step(0));
  waiting.join();
  EXPECT_EQ(status, absl::OkStatus());
}

TEST(ViewChanges, AwaitSealed_Waiting_EndsWithTheReason) {
  ViewChanges changes;
  absl::Status status;
  std::thread waiting([&] { status = *changes.AwaitSealed(Step(0), absl::InfiniteFuture()); });
  changes.End(absl::CancelledError("signal 15"));
  waiting.join();
  EXPECT_EQ(status, absl::CancelledError("signal 15"));
}

TEST(ViewChanges, WhetherSealed_SaysWhatAwaitSealedWould) {
  ViewChanges changes;
  EXPECT_EQ(changes.WhetherSealed(Step(0)), absl::nullopt);
  changes.OnSealed(Step(0));
  EXPECT_EQ(changes.WhetherSealed(Step(0)), absl::OkStatus());
  EXPECT_EQ(changes.WhetherSealed(Step(1)), absl::nullopt);
  changes.OnNewView(ViewOf(2));
  EXPECT_TRUE(absl::IsAborted(*changes.WhetherSealed(Step(1))));
  changes.End(absl::CancelledError("signal 15"));
  EXPECT_EQ(changes.WhetherSealed(Step(1)), absl::CancelledError("signal 15"));
  EXPECT_EQ(changes.WhetherSealed(Step(0)), absl::OkStatus());
}

TEST(ViewChanges, AwaitSealed_Paused_EndsUnlessItWasSealedBefore) {
  ViewChanges changes;
  changes.OnSealed(Step(0));
  changes.OnPaused();
  EXPECT_EQ(changes.AwaitSealed(Step(0), absl::InfiniteFuture()), absl::OkStatus());
  EXPECT_EQ(changes.AwaitSealed(Step(1), SteadyNow()), absl::AbortedError("the run is paused"));
  changes.OnNewView(ViewOf(2));
  ASSERT_TRUE(changes.AwaitView(SteadyNow()).has_value());
  EXPECT_EQ(changes.WhetherSealed(Step(1)), absl::nullopt);
}

TEST(ViewChanges, AwaitEnd_NoneYet_OkAndLaterTheFirstReason) {
  ViewChanges changes;
  EXPECT_EQ(changes.AwaitEnd(SteadyNow()), absl::OkStatus());
  changes.End(absl::CancelledError("signal 15"));
  changes.End(absl::AbortedError("the run is over"));
  EXPECT_EQ(changes.AwaitEnd(absl::InfiniteFuture()), absl::CancelledError("signal 15"));
  EXPECT_EQ(changes.ended(), absl::CancelledError("signal 15"));
}

TEST(ViewChanges, AwaitView_GivesTheLatestOnce) {
  ViewChanges changes;
  EXPECT_EQ(changes.Unchanged(), absl::OkStatus());
  changes.OnNewView(ViewOf(2));
  changes.OnNewView(ViewOf(3));
  EXPECT_TRUE(absl::IsAborted(changes.Unchanged()));
  const absl::optional<View> view = changes.AwaitView(SteadyNow());
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->generation, Generation(3));
  EXPECT_EQ(changes.Unchanged(), absl::OkStatus());
  EXPECT_FALSE(changes.AwaitView(SteadyNow()).has_value());
}

TEST(ViewChanges, AwaitView_Paused_WaitsPastTheDeadlineForTheNextView) {
  ViewChanges changes;
  changes.OnNewView(ViewOf(2));  // of before the pause
  changes.OnPaused();
  EXPECT_TRUE(absl::IsAborted(changes.Unchanged()));
  std::thread later([&changes] {
    absl::SleepFor(absl::Milliseconds(50));
    changes.OnNewView(ViewOf(3));
  });
  const absl::optional<View> view = changes.AwaitView(SteadyNow());
  later.join();
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->generation, Generation(3));
  EXPECT_FALSE(changes.AwaitView(SteadyNow()).has_value());
}

TEST(ViewChanges, AwaitView_PausedWhileItWaits_WaitsOn) {
  ViewChanges changes;
  std::thread later([&changes] {
    absl::SleepFor(absl::Milliseconds(20));
    changes.OnPaused();
    absl::SleepFor(absl::Milliseconds(300));
    changes.End(absl::AbortedError("nobody came back"));
  });
  const absl::Time begun = SteadyNow();
  EXPECT_FALSE(changes.AwaitView(begun + absl::Milliseconds(200)).has_value());
  EXPECT_GE(SteadyNow() - begun, absl::Milliseconds(300));
  later.join();
}

TEST(ViewChanges, AwaitView_AfterTheEnd_GivesNone) {
  ViewChanges changes;
  changes.OnNewView(ViewOf(2));
  changes.End(absl::AbortedError("the run is over"));
  EXPECT_FALSE(changes.AwaitView(absl::InfiniteFuture()).has_value());
}

// A peer that is told to stop, or whose connecting is overtaken by a further view, ends its
// transfers with Cancelled, which may be heard of before the view is.
TEST(MayBeALoss, TransfersThatBrokeOrWereEnded_MayBe) {
  EXPECT_TRUE(MayBeALoss(absl::UnavailableError("reset")));
  EXPECT_TRUE(MayBeALoss(absl::AbortedError("a newer view has begun")));
  EXPECT_TRUE(MayBeALoss(absl::CancelledError("signal 15")));
  EXPECT_TRUE(MayBeALoss(absl::DeadlineExceededError("rank 1 did not contribute")));
  EXPECT_FALSE(MayBeALoss(absl::DataLossError("two truths")));
  EXPECT_FALSE(MayBeALoss(absl::InternalError("torch")));
}

}  // namespace
}  // namespace gradwire
