#include "worker/sync/local_sync.h"

namespace gradwire {

// The outer step adds the mean of what the ranks' models moved, so what comes out is their mean:
// Stich, "Local SGD converges fast and communicates little", ICLR 2019.
std::unique_ptr<Synchronizer> MakeLocalSgdSync(Reducer* reducer, const SyncOptions& options) {
  return std::make_unique<LocalSync>(reducer, options, OuterStep{1, 0});
}

}  // namespace gradwire
