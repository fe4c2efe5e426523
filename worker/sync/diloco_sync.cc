#include "worker/sync/local_sync.h"

namespace gradwire {

// Douillard et al., "DiLoCo: distributed low-communication training of language models", 2023.
std::unique_ptr<Synchronizer> MakeDilocoSync(Reducer* reducer, const SyncOptions& options) {
  return std::make_unique<LocalSync>(reducer, options, options.outer);
}

}  // namespace gradwire
