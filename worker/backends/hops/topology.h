#ifndef GRADWIRE_WORKER_BACKENDS_HOPS_TOPOLOGY_H_
#define GRADWIRE_WORKER_BACKENDS_HOPS_TOPOLOGY_H_

#include <vector>

namespace gradwire {

// From one rank to another.
struct Edge {
  int from = 0;
  int to = 0;

  friend bool operator<(const Edge& a, const Edge& b) {
    return a.from != b.from ? a.from < b.from : a.to < b.to;
  }
};

// Which ways data takes between the ranks of a world; all that a back end of hops has to say.
// Each function is pure and gives W - 1 edges, in an order in which they could be gone one after
// the other. Both together use all links that there are, whatever the root.
struct Topology {
  // How what `root` has reaches all: an edge begins at the root or where an earlier one ended.
  std::vector<Edge> (*spread)(int root, int world_size);
  // How what all have comes together at `root`: no later edge ends where one began. Terms are
  // added in this order.
  std::vector<Edge> (*collect)(int root, int world_size);
  // Rank s - 1 collects from rank s on, in the order of the ranks: so an average is cut as the fold
  // is, and its result is the fold. Else it is one segment, summed up at rank 0.
  bool folds;
  // The ranks of one worker may make sums and means in the same memory: a segment is at one rank
  // at a time, and leaves it before the next one changes it.
  bool shares_memory;
};

// The ring (Patarasuk & Yuan 2009): every rank sends to the next one, and the last to rank 0. Of
// an average, all ranges whose fold begins with rank s go round from there, are summed up at rank
// s - 1, and go round once more: so each rank sends 2(W-1)/W of a bucket, and on hop h the
// ranges of rank - h.
const Topology& RingTopology();

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

#endif  // GRADWIRE_WORKER_BACKENDS_HOPS_TOPOLOGY_H_
