#include "worker/sync/no_sync.h"

namespace gradwire {

absl::StatusOr<size_t> NoSync::NextBucket() {
  return absl::FailedPreconditionError("sync none exchanges no bucket");
}

std::unique_ptr<Synchronizer> MakeNoSync(Backend*) { return std::make_unique<NoSync>(); }

}  // namespace gradwire
