#ifndef GRADWIRE_WORKER_BACKENDS_HOPS_HOP_PLAN_H_
#define GRADWIRE_WORKER_BACKENDS_HOPS_HOP_PLAN_H_

#include <map>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/wire/layout.h"
#include "worker/backends/hops/topology.h"

namespace gradwire {

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
