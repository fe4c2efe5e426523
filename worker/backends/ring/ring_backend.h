#ifndef GRADWIRE_WORKER_BACKENDS_RING_RING_BACKEND_H_
#define GRADWIRE_WORKER_BACKENDS_RING_RING_BACKEND_H_

#include "worker/backends/hops/hop_backend.h"
#include "worker/backends/ring/ring_topology.h"

namespace gradwire {

// See RingTopology.
class RingBackend : public HopBackend {
 public:
  explicit RingBackend(const BackendOptions& options) : HopBackend(RingTopology(), options) {}
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_RING_RING_BACKEND_H_
