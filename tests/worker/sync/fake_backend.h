#ifndef GRADWIRE_TESTS_WORKER_SYNC_FAKE_BACKEND_H_
#define GRADWIRE_TESTS_WORKER_SYNC_FAKE_BACKEND_H_

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "worker/backends/backend.h"

namespace gradwire::testing {

// A back end for one rank that moves nothing: a transfer ends when the test
// says so, or at once if `on_hand_in` says so. Thread-safe.
class FakeBackend : public Backend {
 public:
  struct HandedIn {
    ReduceKey key;
    absl::Time deadline;
  };

  // Called with each transfer that is handed in.
  std::function<void(const ReduceKey&)> on_hand_in = [](const ReduceKey&) {};

  absl::Status OnView(const View&, std::vector<BucketSpec>) override { return absl::OkStatus(); }
  void AllReduceAsync(const ReduceKey& key, absl::Span<const float> terms, absl::Span<float> mean,
                      absl::Time deadline, Done done) override {
    HandIn(key, deadline, [terms, mean, done](absl::Status status) {
      if (status.ok()) std::copy(terms.begin(), terms.end(), mean.begin());
      done(std::move(status));
    });
  }
  void BroadcastAsync(const ReduceKey& key, absl::Span<uint8_t>, absl::Time deadline,
                      Done done) override {
    HandIn(key, deadline, std::move(done));
  }
  void Cancel(absl::Status reason) override {
    std::map<int, Done> ended;
    {
      MutexLock lock(&mutex_);
      cancelled_ = reason;
      ended.swap(under_way_);
    }
    for (auto& [bucket, done] : ended) done(reason);
  }
  absl::Status Finish(absl::Time) override { return absl::OkStatus(); }
  TransferTotals totals() const override { return {}; }

  // Ends the transfer of `bucket`, which is under way.
  void End(int bucket, const absl::Status& status = absl::OkStatus()) {
    Done done;
    {
      MutexLock lock(&mutex_);
      done = std::move(under_way_.at(bucket));
      under_way_.erase(bucket);
    }
    done(status);
  }

  size_t under_way() {
    MutexLock lock(&mutex_);
    return under_way_.size();
  }
  absl::Status cancelled() {
    MutexLock lock(&mutex_);
    return cancelled_;
  }
  std::vector<HandedIn> handed_in() {
    MutexLock lock(&mutex_);
    return handed_in_;
  }
  std::vector<int> buckets() {
    std::vector<int> buckets;
    for (const HandedIn& transfer : handed_in()) buckets.push_back(transfer.key.bucket.value());
    return buckets;
  }

 private:
  void HandIn(const ReduceKey& key, absl::Time deadline, Done done) {
    {
      MutexLock lock(&mutex_);
      handed_in_.push_back({key, deadline});
      under_way_[key.bucket.value()] = std::move(done);
    }
    on_hand_in(key);
  }

  Mutex mutex_;
  std::vector<HandedIn> handed_in_ ABSL_GUARDED_BY(mutex_);
  std::map<int, Done> under_way_ ABSL_GUARDED_BY(mutex_);
  absl::Status cancelled_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_WORKER_SYNC_FAKE_BACKEND_H_
