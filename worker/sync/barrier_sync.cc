#include "worker/sync/barrier_sync.h"

namespace gradwire {

std::unique_ptr<Synchronizer> MakeBarrierSync(Backend* backend) {
  return std::make_unique<BarrierSync>(backend);
}

}  // namespace gradwire
