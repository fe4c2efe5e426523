#ifndef GRADWIRE_WORKER_MEMBER_SHARED_EXCHANGE_H_
#define GRADWIRE_WORKER_MEMBER_SHARED_EXCHANGE_H_

#include <memory>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "worker/backends/exchange.h"

namespace gradwire {

// An exchange for several threads, each with layouts of its own: one at a time is let through where
// an exchange wants one thread. A group whose models travel as factors has them: the threads of
// LowRankExchange, and that of the collectives.
class SharedExchange : public Exchange {
 public:
  explicit SharedExchange(std::unique_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}

  void AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) override {
    MutexLock lock(&mutex_);
    exchange_->AddLayout(layout, std::move(buckets));
  }
  // `done` may run within the call: it must not call this exchange.
  void Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
              Done done) override {
    MutexLock lock(&mutex_);
    exchange_->Expect(key, result, deadline, std::move(done));
  }
  void Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) override {
    MutexLock lock(&mutex_);
    exchange_->Contribute(key, rank, terms);
  }
  void Cancel(absl::Status reason) override { exchange_->Cancel(std::move(reason)); }
  absl::Status Finish(absl::Time deadline) override { return exchange_->Finish(deadline); }
  TransferTotals totals() const override { return exchange_->totals(); }
  absl::optional<Suspect> suspect() const override { return exchange_->suspect(); }

 private:
  Mutex mutex_;
  const std::unique_ptr<Exchange> exchange_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_MEMBER_SHARED_EXCHANGE_H_
