#include "worker/sync/barrier_sync.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "worker/sync/countdown.h"

namespace gradwire {
namespace {

constexpr absl::Duration kCancelMargin = absl::Seconds(2);

}  // namespace

absl::Status BarrierSync::BeforeOptimizer(Step step, const StepBuckets& buckets,
                                          absl::Time deadline) {
  const absl::Time start = absl::Now();
  Countdown countdown(buckets.gradients.size() + (buckets.buffers.empty() ? 0 : 1));
  auto done = [&countdown](const absl::Status& status) { countdown.Done(status); };
  int index = 0;
  for (const StepBuckets::Gradient& gradient : buckets.gradients) {
    backend_->AllReduceAsync({step, Bucket(index++)}, gradient.terms, gradient.mean, deadline,
                             done);
  }
  if (!buckets.buffers.empty()) {
    backend_->BroadcastAsync({step, Bucket(index)}, buckets.buffers, deadline, done);
  }
  // The back end keeps the deadline unless it is stuck in a write.
  if (!countdown.WaitUntil(deadline + kCancelMargin)) {
    backend_->Cancel(absl::DeadlineExceededError(
        absl::StrCat("step ", step.value(), ": a neighbour takes no more data")));
  }
  absl::Status status = countdown.Wait();
  const absl::Duration took = absl::Now() - start;
  times_ = {took, took};
  return status;
}

std::unique_ptr<Synchronizer> MakeBarrierSync(Backend* backend) {
  return std::make_unique<BarrierSync>(backend);
}

}  // namespace gradwire
