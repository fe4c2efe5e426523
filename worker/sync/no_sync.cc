#include "worker/sync/synchronizer.h"

namespace gradwire {

// One process alone: its own gradient is the average.
std::unique_ptr<Synchronizer> MakeNoSync(Reducer*, const SyncOptions&) { return nullptr; }

}  // namespace gradwire
