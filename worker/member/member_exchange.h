#ifndef GRADWIRE_WORKER_MEMBER_MEMBER_EXCHANGE_H_
#define GRADWIRE_WORKER_MEMBER_MEMBER_EXCHANGE_H_

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/telemetry/trace_log.h"
#include "worker/backends/exchange.h"

namespace gradwire {

// The exchange of a back end, for several threads and with a trace. An Exchange allows only one
// thread to call it; this one lets several threads in, one at a time, each with its own layouts,
// such as those of LowRankExchange and of the collectives of a group. `on_span`, which may be
// empty, gets each bucket's transfer, from Expect to its done.
class MemberExchange : public Exchange {
 public:
  MemberExchange(std::unique_ptr<Exchange> exchange, OnSpan on_span)
      : on_span_(std::move(on_span)), exchange_(std::move(exchange)) {}

  void AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) override {
    MutexLock lock(&mutex_);
    // A layout that begins with bytes is no model's, such as that of evaluations: its steps are
    // none of the run.
    if (IsBroadcast(buckets.front())) untraced_.insert(layout);
    exchange_->AddLayout(layout, std::move(buckets));
  }
  // `done` may run within the call, and must not call this exchange.
  void Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
              Done done) override {
    MutexLock lock(&mutex_);
    if (!on_span_ || untraced_.count(key.layout) > 0) {
      return exchange_->Expect(key, result, deadline, std::move(done));
    }
    auto traced = [this, key, begin = SteadyNow(), done = std::move(done)](absl::Status status) {
      on_span_({TraceSpan::Lane::kTransfer, "bucket", key.step, key.bucket, begin, SteadyNow()});
      done(std::move(status));
    };
    exchange_->Expect(key, result, deadline, std::move(traced));
  }
  void Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) override {
    MutexLock lock(&mutex_);
    exchange_->Contribute(key, rank, terms);
  }
  Memory TermsMemory(LayoutId layout, Bucket bucket, Rank rank) override {
    MutexLock lock(&mutex_);
    return exchange_->TermsMemory(layout, bucket, rank);
  }
  Memory ResultMemory(LayoutId layout, Bucket bucket) override {
    MutexLock lock(&mutex_);
    return exchange_->ResultMemory(layout, bucket);
  }
  void SetRate(double rate) override {
    MutexLock lock(&mutex_);
    exchange_->SetRate(rate);
  }
  std::vector<KeptValues> Kept(LayoutId layout) override {
    MutexLock lock(&mutex_);
    return exchange_->Kept(layout);
  }
  void Cancel(absl::Status reason) override { exchange_->Cancel(std::move(reason)); }
  absl::Status Finish(absl::Time deadline) override { return exchange_->Finish(deadline); }
  TransferTotals totals() const override { return exchange_->totals(); }
  absl::optional<Suspect> suspect() const override { return exchange_->suspect(); }

 private:
  const OnSpan on_span_;
  Mutex mutex_;
  std::set<LayoutId> untraced_ ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<Exchange> exchange_;  // ends first, because its threads call on_span_
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_MEMBER_MEMBER_EXCHANGE_H_
