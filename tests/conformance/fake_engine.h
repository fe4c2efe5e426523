#ifndef GRADWIRE_TESTS_CONFORMANCE_FAKE_ENGINE_H_
#define GRADWIRE_TESTS_CONFORMANCE_FAKE_ENGINE_H_

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "worker/backends/engines/engine.h"

namespace gradwire {

// An engine whose operations take the terms of this rank alone, and end
// when the test says so, or at Abort.
class FakeEngine : public CollectiveEngine {
 public:
  // `peer_key`: Connect waits for it, if it is not empty.
  explicit FakeEngine(std::string peer_key = "") : peer_key_(std::move(peer_key)) {}

  absl::Status Bind(const std::string& host) override {
    bound_to = host;
    return absl::OkStatus();
  }
  absl::Status Connect(int, int, KeyValueStore* store) override {
    if (peer_key_.empty()) return absl::OkStatus();
    return store->Wait({peer_key_}, SteadyNow() + absl::Seconds(60)).status();
  }
  void Sum(absl::Span<const float> terms, absl::Span<float> sum, Done done) override {
    std::copy(terms.begin(), terms.end(), sum.begin());
    Add(terms.size() * sizeof(float), done);
  }
  void Broadcast(absl::Span<uint8_t> bytes, int root, Done done) override {
    roots.push_back(root);
    Add(bytes.size(), done);
  }
  void Gather(absl::Span<uint8_t> mine, const std::vector<absl::Span<uint8_t>>& parts, int,
              Done done) override {
    for (const absl::Span<uint8_t> part : parts) std::copy(mine.begin(), mine.end(), part.begin());
    Add(mine.size(), done);
  }
  void Scatter(const std::vector<absl::Span<uint8_t>>&, absl::Span<uint8_t> mine, int,
               Done done) override {
    Add(mine.size(), done);
  }
  absl::Status Finish(absl::Time) override { return finish_status; }
  std::vector<int> BrokenPeers() override { return broken; }
  void Abort() override {
    MutexLock lock(&mutex_);
    aborted_ = true;
    changed_.NotifyAll();
  }

  // Waits until `count` operations are under way or ended.
  void WaitForOperations(size_t count) {
    MutexLock lock(&mutex_);
    while (operations_.size() < count) changed_.Wait(&mutex_);
  }
  // Waits for operation number `index`; then it ends with `status`.
  void End(size_t index, const absl::Status& status) {
    WaitForOperations(index + 1);
    Done done;
    {
      MutexLock lock(&mutex_);
      std::swap(done, operations_[index].second);
    }
    done(status);
  }
  // Waits for Abort; then ends operation `index`, if it is under way, as a
  // closed connection does.
  void EndAfterAbort(size_t index) {
    {
      MutexLock lock(&mutex_);
      while (!aborted_) changed_.Wait(&mutex_);
      if (operations_.size() <= index) return;
    }
    End(index, absl::UnavailableError("aborted"));
  }
  std::vector<size_t> sizes() {
    MutexLock lock(&mutex_);
    std::vector<size_t> sizes;
    for (const auto& operation : operations_) sizes.push_back(operation.first);
    return sizes;
  }

  std::string bound_to;
  std::vector<int> broken;
  absl::Status finish_status;
  std::vector<int> roots;  // of the broadcasts; read it behind End

 private:
  void Add(size_t bytes, Done done) {
    {
      MutexLock lock(&mutex_);
      if (!aborted_) operations_.emplace_back(bytes, std::exchange(done, nullptr));
      changed_.NotifyAll();
    }
    if (done != nullptr) done(absl::UnavailableError("aborted"));
  }

  const std::string peer_key_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::pair<size_t, Done>> operations_ ABSL_GUARDED_BY(mutex_);  // bytes, done
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_CONFORMANCE_FAKE_ENGINE_H_
