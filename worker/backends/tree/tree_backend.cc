#include "worker/backends/hops/hop_backend.h"
#include "worker/backends/tree/tree_topology.h"

namespace gradwire {

absl::StatusOr<std::unique_ptr<Backend>> MakeTreeBackend(const BackendOptions& options) {
  return std::make_unique<HopBackend>(TreeTopology(), options);
}

}  // namespace gradwire
