#include "worker/backends/ring/ring_backend.h"

namespace gradwire {

absl::StatusOr<std::unique_ptr<Backend>> MakeRingBackend(const BackendOptions& options) {
  return std::make_unique<RingBackend>(options);
}

}  // namespace gradwire
