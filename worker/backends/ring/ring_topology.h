#ifndef GRADWIRE_WORKER_BACKENDS_RING_RING_TOPOLOGY_H_
#define GRADWIRE_WORKER_BACKENDS_RING_RING_TOPOLOGY_H_

#include "worker/backends/hops/topology.h"

namespace gradwire {

// The ring (Patarasuk & Yuan 2009): every rank sends to the next one, and the last to rank 0. Of
// an average, all ranges whose fold begins with rank s go round from there, are summed up at rank
// s - 1, and go round once more: so each rank sends 2(W-1)/W of a bucket, and on hop h the
// ranges of rank - h.
const Topology& RingTopology();

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_RING_RING_TOPOLOGY_H_
