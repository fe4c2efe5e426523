#include "worker/sync/synchronizer.h"

namespace gradwire {

// One process alone: its own gradient is the average.
std::unique_ptr<Synchronizer> MakeNoSync(Reducer*) { return nullptr; }

}  // namespace gradwire
