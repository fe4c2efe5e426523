#include "worker/backends/exchange.h"

#include "absl/strings/str_cat.h"

namespace gradwire {

std::string ToString(const BucketKey& key) {
  const std::string layout =
      key.layout == LayoutId(0) ? "" : absl::StrCat("layout ", key.layout.value(), ", ");
  return absl::StrCat(layout, "step ", key.step.value(), ", bucket ", key.bucket.value());
}

namespace {

// The exchange keeps the deadline itself unless it is stuck in a write.
constexpr absl::Duration kMargin = absl::Seconds(2);

}  // namespace

WholeStep::WholeStep(Exchange* exchange, LayoutId layout, Step step,
                     absl::Span<const WholeBucket> buckets, absl::Time deadline)
    : exchange_(exchange), deadline_(deadline), countdown_(buckets.size()) {
  const auto key = [&](size_t i) { return BucketKey{layout, step, Bucket(static_cast<int>(i))}; };
  for (size_t i = 0; i < buckets.size(); ++i) {
    exchange->Expect(key(i), buckets[i].result, deadline,
                     [this](const absl::Status& status) { countdown_.Done(status); });
  }
  for (size_t i = 0; i < buckets.size(); ++i) {
    for (const auto& [rank, terms] : buckets[i].terms) exchange->Contribute(key(i), rank, terms);
  }
}

absl::Status WholeStep::Wait() {
  if (!countdown_.WaitUntil(deadline_ + kMargin)) {
    exchange_->Cancel(absl::DeadlineExceededError("a peer takes no more data"));
  }
  return countdown_.Wait();
}

}  // namespace gradwire
