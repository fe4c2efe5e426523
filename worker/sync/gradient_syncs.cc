#include "worker/sync/synchronizer.h"

namespace gradwire {

// A process alone: its own gradient is the average.
std::unique_ptr<Synchronizer> MakeNoSync(Reducer*, const SyncOptions&) { return nullptr; }

namespace {

// After the backward pass of its last rank a worker contributes all buckets at once, and waits for
// all: communication and computation never overlap.
class AfterBackwardSync : public Synchronizer {
 public:
  using Synchronizer::Synchronizer;

  void OnBackwardDone(Rank rank) override {
    if (IsLast(rank)) reducer().ContributeRest(reducer().ranks());
  }
};

}  // namespace

std::unique_ptr<Synchronizer> MakeAfterBackwardSync(Reducer* reducer, const SyncOptions&) {
  return std::make_unique<AfterBackwardSync>(reducer);
}

namespace {

// Exchanges one bucket at a time, from the back of the model to the front. With a bucket for each
// parameter it is the loop over parameters with which courses begin.
class PerLayerSync : public Synchronizer {
 public:
  using Synchronizer::Synchronizer;

  void OnBackwardDone(Rank rank) override {
    if (IsLast(rank)) next_ = 0;
  }
  absl::StatusOr<size_t> NextBucket() override {
    for (const Rank rank : reducer().ranks()) reducer().Contribute(next_, rank);
    ++next_;
    return reducer().NextBucket();
  }

 private:
  size_t next_ = 0;  // next bucket to contribute
};

}  // namespace

std::unique_ptr<Synchronizer> MakePerLayerSync(Reducer* reducer, const SyncOptions&) {
  return std::make_unique<PerLayerSync>(reducer);
}

namespace {

// Contributes each bucket as soon as backward has completed it. The buffers are complete first, so
// the order is the same on all workers: buffers, bucket 0, 1, …
class DdpSync : public Synchronizer {
 public:
  using Synchronizer::Synchronizer;

  void OnForwardDone(Rank rank) override {
    const size_t buffers = reducer().gradient_buckets();
    if (reducer().bucket_count() > buffers) reducer().Contribute(buffers, rank);
  }
  void OnBucketReady(size_t bucket, Rank rank) override { reducer().Contribute(bucket, rank); }
  void OnBackwardDone(Rank rank) override { reducer().ContributeRest({rank}); }
};

}  // namespace

std::unique_ptr<Synchronizer> MakeDdpSync(Reducer* reducer, const SyncOptions&) {
  return std::make_unique<DdpSync>(reducer);
}

}  // namespace gradwire
