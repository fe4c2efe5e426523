#ifndef GRADWIRE_WORKER_SYNC_DDP_SYNC_H_
#define GRADWIRE_WORKER_SYNC_DDP_SYNC_H_

#include <memory>

#include "worker/sync/exchange_sync.h"

namespace gradwire {

// Hands in each bucket as soon as backward has made it, and lets the next
// forward pass begin while means still come in. The buffers go first, for they
// are there first. So the order is the same on all ranks: buffers, bucket 0, 1, …
class DdpSync : public ExchangeSync {
 public:
  using ExchangeSync::ExchangeSync;

  bool updates_late() const override { return true; }
  void OnForwardDone(Step step, const StepBuckets& buckets, absl::Duration timeout) override;
  void OnBucketReady(size_t bucket) override { transfers().HandIn(bucket); }
};

std::unique_ptr<Synchronizer> MakeDdpSync(Backend* backend);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_SYNC_DDP_SYNC_H_
