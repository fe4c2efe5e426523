#include "worker/backends/whole_step.h"

#include "common/base/countdown.h"

namespace gradwire {
namespace {

// The exchange keeps the deadline itself unless it is stuck in a write.
constexpr absl::Duration kMargin = absl::Seconds(2);

}  // namespace

absl::Status ExchangeWhole(Exchange* exchange, LayoutId layout, Step step,
                           absl::Span<const WholeBucket> buckets, absl::Time deadline) {
  Countdown countdown(buckets.size());
  const auto key = [&](size_t i) { return BucketKey{layout, step, Bucket(static_cast<int>(i))}; };
  for (size_t i = 0; i < buckets.size(); ++i) {
    exchange->Expect(key(i), buckets[i].result, deadline,
                     [&countdown](const absl::Status& status) { countdown.Done(status); });
  }
  for (size_t i = 0; i < buckets.size(); ++i) {
    for (const auto& [rank, terms] : buckets[i].terms) exchange->Contribute(key(i), rank, terms);
  }
  if (!countdown.WaitUntil(deadline + kMargin)) {
    exchange->Cancel(absl::DeadlineExceededError("a peer takes no more data"));
  }
  return countdown.Wait();
}

}  // namespace gradwire
