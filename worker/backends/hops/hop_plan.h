#ifndef GRADWIRE_WORKER_BACKENDS_HOPS_HOP_PLAN_H_
#define GRADWIRE_WORKER_BACKENDS_HOPS_HOP_PLAN_H_

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"

namespace gradwire {

// A link from one rank to another.
struct Edge {
  int from = 0;
  int to = 0;

  friend bool operator<(const Edge& a, const Edge& b) {
    return a.from != b.from ? a.from < b.from : a.to < b.to;
  }
};

// Where the ranks of a view are. Constant.
class Places {
 public:
  // Every rank has a worker and a host of its own.
  explicit Places(int world_size);
  // Workers are on one host if their addresses differ in the port only. So all members of a view
  // find the same hosts.
  explicit Places(const View& view);

  int world_size() const { return static_cast<int>(workers_.size()); }
  // Return a number that is equal for ranks of one worker, or on one host.
  int WorkerOf(int rank) const { return workers_[static_cast<size_t>(rank)]; }
  int HostOf(int rank) const { return hosts_[static_cast<size_t>(rank)]; }

 private:
  std::vector<int> workers_;  // by rank
  std::vector<int> hosts_;    // by rank
};

// The routes of data between ranks; a back end of hops is defined by its topology. Each function is
// pure and gives W - 1 edges, in an order in which they could run one after the other.
struct Topology {
  // How data of `root` reaches all: an edge begins at the root or where an earlier edge ended.
  std::vector<Edge> (*broadcast)(int root, const Places& places);
  // How data of all ranks meets at `root`: no later edge ends where an earlier one began. Terms are
  // added in this order, which must not depend on who carries a rank.
  std::vector<Edge> (*reduce)(int root, const Places& places);
  // True: rank s - 1 reduces from rank s on, in rank order, so an average is cut as the fold is,
  // and its result is the fold. False: an average is one segment, summed at rank 0.
  bool folds;
  // Whether the ranks of one worker may use the same memory for sums and means: a sum leaves a rank
  // before the next one changes it, and each worker gets a result from others at most once.
  bool shares_memory;
};

// The ring (Patarasuk & Yuan 2009): every rank sends to the next one, and the last to rank 0. In an
// average, the ranges whose fold begins with rank s start there, are complete at rank s - 1, and
// the mean goes around once more. Hop h brings rank r the ranges of rank r - h - 1. If no ranks are
// near each other, each sends 2(W-1)/W of a bucket.
//
// A broadcast leaves the ring where a near rank has the data already: a rank takes it from the last
// earlier rank of its worker, else from the last earlier rank of its host, else from the rank
// before it. So data enters each worker once, and each host once:
//
//          host A        host B             ranks 0 to 3, root 1: without hosts, rank 0 would get
//       0 ◄── 1 ───────► 2 ──► 3            the data from rank 3
//
const Topology& RingTopology();

// All links of the topology, for any root.
std::set<Edge> LinksOf(const Topology& topology, const Places& places);

// The binomial tree, as in a shuffle engine: in round k the ranks that are odd multiples of 2^k
// send to the rank 2^k below, so rank 0 has all after ceil(log2 W) rounds. The parent of a rank is
// the rank without its lowest bit.
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

// `from` sends a segment to `to`, which adds its own terms or copies the segment. The result is as
// if all hops ran one after the other; in fact each runs, chunk by chunk, as soon as the earlier
// hops of its segment at its ranks are done.
struct Hop {
  Edge edge;
  int segment = 0;
  int number = 0;  // position on the segment's route; header.hop
  bool adds = false;
  bool completes = false;  // the last hop that adds: its result is the mean
};

// All hops of a collective along the routes of the topology:
//
//   all-reduce      each segment to the rank where it is summed, and from there to all
//   reduce          one segment, to the root
//   broadcast       one segment, from the root to all
//   send-recv       one segment, from the root to the rank before it
//   reduce-scatter  segment r is summed at rank r
//   all-gather      segment r goes from rank r to all
//   gather          segment r goes from rank r to the root
//   scatter         segment r goes from the root to rank r
struct Route {
  int segments = 1;
  std::vector<Hop> hops;
};
Route RouteOf(const Topology& topology, v1::Collective collective, int root, const Places& places);

// The hops that one rank takes part in.
struct RankPlan {
  struct Receive {
    Rank from;
    Hop hop;
    int before = -1;         // the previous receive of the same segment; -1: none
    bool widens = false;     // a 16-bit result that is wanted as float32
    std::vector<int> sends;  // indices in `sends` of the sends after it
  };
  struct Send {
    Rank to;
    Hop hop;
    bool of_terms = true;  // no receive comes before it
  };

  std::vector<Receive> receives;
  std::vector<Send> sends;
  std::vector<int> own_segments;  // no receive ever changes these
};

// The plan of all ranks of one worker. Constant.
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
  // The last receive so far, by rank and segment; -1: none.
  using Last = std::map<Rank, std::vector<int>>;
  void AddSend(const Hop& hop, const Last& last);
  void AddReceive(const Hop& hop, Last* last);
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_HOPS_HOP_PLAN_H_
