#ifndef GRADWIRE_WORKER_SYNC_BARRIER_SYNC_H_
#define GRADWIRE_WORKER_SYNC_BARRIER_SYNC_H_

#include <memory>

#include "worker/sync/exchange_sync.h"

namespace gradwire {

// After backward, hands all buckets to the back end at once and waits for all:
// communication and computation never overlap.
class BarrierSync : public ExchangeSync {
 public:
  using ExchangeSync::ExchangeSync;
};

std::unique_ptr<Synchronizer> MakeBarrierSync(Backend* backend);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_SYNC_BARRIER_SYNC_H_
