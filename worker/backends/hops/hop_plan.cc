#include "worker/backends/hops/hop_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "common/base/address.h"

namespace gradwire {

Places::Places(int world_size) : workers_(static_cast<size_t>(world_size)) {
  std::iota(workers_.begin(), workers_.end(), 0);
  hosts_ = workers_;
}

Places::Places(const View& view)
    : workers_(static_cast<size_t>(view.world_size)), hosts_(workers_) {
  std::map<std::string, int> numbers;  // of hosts
  for (size_t i = 0; i < view.members.size(); ++i) {
    const std::string host(WithoutPort(view.members[i].address));
    const int number = numbers.try_emplace(host, static_cast<int>(numbers.size())).first->second;
    for (const Rank rank : view.members[i].ranks) {
      workers_[static_cast<size_t>(rank.value())] = static_cast<int>(i);
      hosts_[static_cast<size_t>(rank.value())] = number;
    }
  }
}

namespace {

// Once around the ring, from `first` on.
std::vector<Edge> AroundFrom(int first, int world_size) {
  std::vector<Edge> edges;
  for (int i = 0; i + 1 < world_size; ++i) {
    edges.push_back({(first + i) % world_size, (first + i + 1) % world_size});
  }
  return edges;
}

std::vector<Edge> SpreadOnRing(int root, const Places& places) {
  std::vector<Edge> edges = AroundFrom(root, places.world_size());
  // The last rank so far, by worker and by host.
  std::map<int, int> of_worker{{places.WorkerOf(root), root}};
  std::map<int, int> of_host{{places.HostOf(root), root}};
  for (Edge& edge : edges) {
    const auto own = of_worker.find(places.WorkerOf(edge.to));
    const auto near = of_host.find(places.HostOf(edge.to));
    if (own != of_worker.end()) {
      edge.from = own->second;
    } else if (near != of_host.end()) {
      edge.from = near->second;
    }
    of_worker[places.WorkerOf(edge.to)] = edge.to;
    of_host[places.HostOf(edge.to)] = edge.to;
  }
  return edges;
}

// Begins at the right neighbor of the root.
std::vector<Edge> CollectOnRing(int root, const Places& places) {
  return AroundFrom((root + 1) % places.world_size(), places.world_size());
}

// Returns the ranks next to `rank`: its children from the highest to the lowest, then its parent.
std::vector<int> Neighbours(int rank, int world_size) {
  std::vector<int> neighbours;
  const int lowest = rank & -rank;
  for (int bit = 1; rank + bit < world_size && (rank == 0 || bit < lowest); bit <<= 1) {
    neighbours.insert(neighbours.begin(), rank + bit);
  }
  if (rank != 0) neighbours.push_back(rank - lowest);
  return neighbours;
}

std::vector<Edge> SpreadOnTree(int root, const Places& places) {
  std::vector<Edge> edges = {{root, root}};
  for (size_t i = 0; i < edges.size(); ++i) {
    const Edge edge = edges[i];
    for (const int next : Neighbours(edge.to, places.world_size())) {
      if (next != edge.from) edges.push_back({edge.to, next});
    }
  }
  edges.erase(edges.begin());
  return edges;
}

std::vector<Edge> CollectOnTree(int root, const Places& places) {
  std::vector<Edge> edges = SpreadOnTree(root, places);
  std::reverse(edges.begin(), edges.end());
  for (Edge& edge : edges) std::swap(edge.from, edge.to);
  return edges;
}

}  // namespace

const Topology& RingTopology() {
  static constexpr Topology kRing = {SpreadOnRing, CollectOnRing, /*folds=*/true,
                                     /*shares_memory=*/true};
  return kRing;
}

const Topology& TreeTopology() {
  static constexpr Topology kTree = {SpreadOnTree, CollectOnTree, /*folds=*/false,
                                     /*shares_memory=*/false};
  return kTree;
}

std::set<Edge> LinksOf(const Topology& topology, const Places& places) {
  std::set<Edge> links;
  for (int root = 0; root < places.world_size(); ++root) {
    for (const auto& way : {topology.reduce, topology.broadcast}) {
      for (const Edge& edge : way(root, places)) links.insert(edge);
    }
  }
  return links;
}

namespace {

// The route of one segment.
struct Way {
  std::vector<Edge> edges;
  size_t adding = 0;  // that many first edges add
};

Way Copied(std::vector<Edge> edges) { return {std::move(edges), 0}; }

Way Summed(std::vector<Edge> edges) { return {edges, edges.size()}; }

// Returns the part of `edges`, by which a root reaches all, that leads to `rank`.
std::vector<Edge> Path(const std::vector<Edge>& edges, int rank) {
  std::vector<Edge> path;
  for (auto edge = edges.rbegin(); edge != edges.rend(); ++edge) {
    if (edge->to != rank) continue;
    path.insert(path.begin(), *edge);
    rank = edge->from;
  }
  return path;
}

Way AverageWay(const Topology& topology, int root, const Places& places) {
  Way way = Summed(topology.reduce(root, places));
  const std::vector<Edge> back = topology.broadcast(root, places);
  way.edges.insert(way.edges.end(), back.begin(), back.end());
  return way;
}

Way WayOf(const Topology& topology, v1::Collective collective, int root, int segment,
          const Places& places) {
  const int world_size = places.world_size();
  switch (collective) {
    case v1::COLLECTIVE_REDUCE:
      return Summed(topology.reduce(root, places));
    case v1::COLLECTIVE_BROADCAST:
      return Copied(topology.broadcast(root, places));
    case v1::COLLECTIVE_SEND_RECV:
      return Copied(Path(topology.broadcast(root, places), (root + world_size - 1) % world_size));
    case v1::COLLECTIVE_REDUCE_SCATTER:
      return Summed(topology.reduce(segment, places));
    case v1::COLLECTIVE_ALL_GATHER:
      return Copied(topology.broadcast(segment, places));
    case v1::COLLECTIVE_GATHER:
      return Copied(Path(topology.broadcast(segment, places), root));
    case v1::COLLECTIVE_SCATTER:
      return Copied(Path(topology.broadcast(root, places), segment));
    default:
      return AverageWay(topology, topology.folds ? (segment + world_size - 1) % world_size : 0,
                        places);
  }
}

int SegmentsOf(const Topology& topology, v1::Collective collective, int world_size) {
  switch (collective) {
    case v1::COLLECTIVE_REDUCE:
    case v1::COLLECTIVE_BROADCAST:
    case v1::COLLECTIVE_SEND_RECV:
      return 1;
    case v1::COLLECTIVE_REDUCE_SCATTER:
    case v1::COLLECTIVE_ALL_GATHER:
    case v1::COLLECTIVE_GATHER:
    case v1::COLLECTIVE_SCATTER:
      return world_size;
    default:
      return topology.folds ? world_size : 1;
  }
}

}  // namespace

Route RouteOf(const Topology& topology, v1::Collective collective, int root, const Places& places) {
  Route route;
  route.segments = SegmentsOf(topology, collective, places.world_size());
  std::vector<Way> ways;
  size_t longest = 0;
  for (int segment = 0; segment < route.segments; ++segment) {
    ways.push_back(WayOf(topology, collective, root, segment, places));
    longest = std::max(longest, ways.back().edges.size());
  }
  for (size_t i = 0; i < longest; ++i) {
    for (int segment = 0; segment < route.segments; ++segment) {
      const Way& way = ways[segment];
      if (i >= way.edges.size()) continue;
      route.hops.push_back(
          {way.edges[i], segment, static_cast<int>(i), i < way.adding, i + 1 == way.adding});
    }
  }
  return route;
}

HopPlan::HopPlan(const Route& route, const std::vector<Rank>& own) : segments(route.segments) {
  Last last;
  for (const Rank rank : own) {
    ranks[rank];
    last[rank].assign(segments, -1);
  }
  for (const Hop& hop : route.hops) {
    if (last.count(Rank(hop.edge.from)) > 0) AddSend(hop, last);
    if (last.count(Rank(hop.edge.to)) > 0) AddReceive(hop, &last);
  }
  for (const auto& [rank, received] : last) {
    for (int segment = 0; segment < segments; ++segment) {
      if (received[segment] < 0) ranks.at(rank).own_segments.push_back(segment);
    }
  }
}

void HopPlan::AddSend(const Hop& hop, const Last& last) {
  RankPlan& plan = ranks.at(Rank(hop.edge.from));
  const int before = last.at(Rank(hop.edge.from))[hop.segment];
  if (before >= 0) plan.receives[before].sends.push_back(static_cast<int>(plan.sends.size()));
  plan.sends.push_back({Rank(hop.edge.to), hop, before < 0});
}

void HopPlan::AddReceive(const Hop& hop, Last* last) {
  RankPlan& plan = ranks.at(Rank(hop.edge.to));
  int& before = last->at(Rank(hop.edge.to))[hop.segment];
  if (before >= 0 && hop.adds) plan.receives[before].widens = true;
  const int index = static_cast<int>(plan.receives.size());
  plan.receives.push_back({Rank(hop.edge.from), hop, before, !hop.adds || hop.completes, {}});
  before = index;
  incoming[{hop.segment, hop.number}] = {Rank(hop.edge.from), Rank(hop.edge.to), index};
}

}  // namespace gradwire
