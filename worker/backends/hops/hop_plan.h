#ifndef GRADWIRE_WORKER_BACKENDS_HOPS_HOP_PLAN_H_
#define GRADWIRE_WORKER_BACKENDS_HOPS_HOP_PLAN_H_

#include <map>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/wire/layout.h"

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
  std::vector<Edge> (*broadcast)(int root, int world_size);
  // How what all have comes together at `root`: no later edge ends where one began. Terms are
  // added in this order.
  std::vector<Edge> (*reduce)(int root, int world_size);
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

// `from` sends a segment to `to`, which adds its own to it, or takes it as it is. What comes out is
// as if all hops were made one after the other; each is made, chunk by chunk, as soon as the
// earlier ones of its segment at its ranks are.
struct Hop {
  Edge edge;
  int segment = 0;
  int number = 0;  // on the segment's way; header.hop
  bool adds = false;
  bool completes = false;  // the last that adds: what comes out is the mean
};

// All hops of a collective, as Topology has the ways:
//
//   all-reduce      each segment to where it is summed up, and from there to all
//   reduce          one segment, to the root
//   broadcast       one segment, from the root to all
//   send-recv       one segment, from the root to the rank before it
//   reduce-scatter  segment r is summed up at rank r
//   all-gather      segment r goes from rank r to all
//   gather          segment r goes from rank r to the root
//   scatter         segment r goes from the root to rank r
struct Route {
  int segments = 1;
  std::vector<Hop> hops;
};
Route RouteOf(const Topology& topology, v1::Collective collective, int root, int world_size);

// The hops that one rank takes part in.
struct RankPlan {
  struct Receive {
    Rank from;
    Hop hop;
    int before = -1;         // the one of the same segment before it; -1: none
    bool widens = false;     // of halves: what comes out is wanted as float32
    std::vector<int> sends;  // that follow, in `sends`
  };
  struct Send {
    Rank to;
    Hop hop;
    bool of_terms = true;  // nothing is received before it
  };

  std::vector<Receive> receives;
  std::vector<Send> sends;
  std::vector<int> own_segments;  // nothing is ever received of these
};

// The same for all ranks of one worker. Constant.
struct HopPlan {
  HopPlan(const Route& route, const std::vector<Rank>& ranks);

  struct Incoming {
    Rank from;
    Rank receiver;    // of this worker
    int receive = 0;  // in the receiver's plan
  };

  int segments;
  std::map<Rank, RankPlan> ranks;                    // of the worker
  std::map<std::pair<int, int>, Incoming> incoming;  // by segment and number

 private:
  // Of each segment of each rank, what was received last so far; -1: nothing.
  using Last = std::map<Rank, std::vector<int>>;
  void AddSend(const Hop& hop, const Last& last);
  void AddReceive(const Hop& hop, Last* last);
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_HOPS_HOP_PLAN_H_
