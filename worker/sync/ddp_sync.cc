#include "worker/sync/ddp_sync.h"

namespace gradwire {

void DdpSync::OnForwardDone(Step step, const StepBuckets& buckets, absl::Duration timeout) {
  ExchangeSync::OnForwardDone(step, buckets, timeout);
  if (!buckets.buffers.empty()) transfers().HandIn(buckets.gradients.size());
}

std::unique_ptr<Synchronizer> MakeDdpSync(Backend* backend) {
  return std::make_unique<DdpSync>(backend);
}

}  // namespace gradwire
