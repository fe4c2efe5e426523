#include "worker/sync/synchronizer.h"

namespace gradwire {
namespace {

// Hands in each bucket as soon as backward has made it. The buffers go first, for they are
// there first. So the order is the same on all workers: buffers, bucket 0, 1, …
class DdpSync : public Synchronizer {
 public:
  using Synchronizer::Synchronizer;

  void OnForwardDone(Rank rank) override {
    const size_t buffers = reducer().gradient_buckets();
    if (reducer().bucket_count() > buffers) reducer().HandIn(buffers, rank);
  }
  void OnBucketReady(size_t bucket, Rank rank) override { reducer().HandIn(bucket, rank); }
  void OnBackwardDone(Rank rank) override { reducer().HandInRest({rank}); }
};

}  // namespace

std::unique_ptr<Synchronizer> MakeDdpSync(Reducer* reducer, const SyncOptions&) {
  return std::make_unique<DdpSync>(reducer);
}

}  // namespace gradwire
