#ifndef GRADWIRE_WORKER_BACKENDS_TREE_TREE_TOPOLOGY_H_
#define GRADWIRE_WORKER_BACKENDS_TREE_TREE_TOPOLOGY_H_

#include "worker/backends/hops/topology.h"

namespace gradwire {

// The binomial tree, as a shuffle engine reduces: in round k the ranks that are odd multiples of
// 2^k send to the rank 2^k below, so that rank 0 has all after ceil(log2 W) rounds. The parent of
// a rank is the rank without its lowest bit.
//
//             0
//         ┌───┼───────┐
//         1   2       4
//             │     ┌─┴─┐
//             3     5   6
//                       │
//                       7
//
// An average goes up in one piece, children from the lowest to the highest:
// ((t0 + t1) + (t2 + t3)) + ((t4 + t5) + (t6 + t7)); then it comes down again.
const Topology& TreeTopology();

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_TREE_TREE_TOPOLOGY_H_
