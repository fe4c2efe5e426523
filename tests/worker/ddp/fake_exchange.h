#ifndef GRADWIRE_TESTS_WORKER_DDP_FAKE_EXCHANGE_H_
#define GRADWIRE_TESTS_WORKER_DDP_FAKE_EXCHANGE_H_

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "worker/backends/exchange.h"

namespace gradwire::testing {

// An exchange that moves nothing: a transfer ends when the test says so, or at once if
// `on_contribute` says so. The result is what the last rank put in. Thread-safe.
class FakeExchange : public Exchange {
 public:
  struct Expected {
    BucketKey key;
    absl::Time deadline;
  };
  struct Contribution {
    int bucket;
    int rank;
    friend bool operator==(const Contribution& a, const Contribution& b) {
      return a.bucket == b.bucket && a.rank == b.rank;
    }
  };

  // Called with each contribution.
  std::function<void(const BucketKey&)> on_contribute = [](const BucketKey&) {};

  void AddLayout(LayoutId, std::vector<BucketSpec>) override {}
  void Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
              Done done) override {
    MutexLock lock(&mutex_);
    expected_.push_back({key, deadline});
    under_way_[key.bucket.value()] = {result, {}, std::move(done)};
  }
  void Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) override {
    {
      MutexLock lock(&mutex_);
      contributions_.push_back({key.bucket.value(), rank.value()});
      under_way_.at(key.bucket.value()).terms = terms;
    }
    on_contribute(key);
  }
  void Cancel(absl::Status reason) override {
    std::map<int, Transfer> ended;
    {
      MutexLock lock(&mutex_);
      cancelled_ = reason;
      ended.swap(under_way_);
    }
    for (auto& [bucket, transfer] : ended) transfer.done(reason);
  }
  absl::Status Finish(absl::Time) override { return absl::OkStatus(); }
  TransferTotals totals() const override { return {}; }

  // Ends the transfer of `bucket`, which is under way.
  void End(int bucket, const absl::Status& status = absl::OkStatus()) {
    Transfer transfer;
    {
      MutexLock lock(&mutex_);
      transfer = std::move(under_way_.at(bucket));
      under_way_.erase(bucket);
    }
    if (status.ok() && transfer.terms.data() != transfer.result.data()) {
      std::copy(transfer.terms.begin(), transfer.terms.end(), transfer.result.begin());
    }
    transfer.done(status);
  }

  size_t under_way() {
    MutexLock lock(&mutex_);
    return under_way_.size();
  }
  absl::Status cancelled() {
    MutexLock lock(&mutex_);
    return cancelled_;
  }
  std::vector<Expected> expected() {
    MutexLock lock(&mutex_);
    return expected_;
  }
  // In the order in which they were expected.
  std::vector<int> buckets() {
    std::vector<int> buckets;
    for (const Expected& transfer : expected()) buckets.push_back(transfer.key.bucket.value());
    return buckets;
  }
  std::vector<Contribution> contributions() {
    MutexLock lock(&mutex_);
    return contributions_;
  }

 private:
  struct Transfer {
    absl::Span<uint8_t> result;
    absl::Span<const uint8_t> terms;
    Done done;
  };

  Mutex mutex_;
  std::vector<Expected> expected_ ABSL_GUARDED_BY(mutex_);
  std::vector<Contribution> contributions_ ABSL_GUARDED_BY(mutex_);
  std::map<int, Transfer> under_way_ ABSL_GUARDED_BY(mutex_);  // by bucket
  absl::Status cancelled_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_WORKER_DDP_FAKE_EXCHANGE_H_
