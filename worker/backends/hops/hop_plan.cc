#include "worker/backends/hops/hop_plan.h"

#include <algorithm>
#include <utility>

namespace gradwire {

namespace {

std::vector<Edge> SpreadOnRing(int root, int world_size) {
  std::vector<Edge> edges;
  for (int i = 0; i + 1 < world_size; ++i) {
    edges.push_back({(root + i) % world_size, (root + i + 1) % world_size});
  }
  return edges;
}

// Begins at the right neighbor of the root.
std::vector<Edge> CollectOnRing(int root, int world_size) {
  return SpreadOnRing((root + 1) % world_size, world_size);
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

std::vector<Edge> SpreadOnTree(int root, int world_size) {
  std::vector<Edge> edges = {{root, root}};
  for (size_t i = 0; i < edges.size(); ++i) {
    const Edge edge = edges[i];
    for (const int next : Neighbours(edge.to, world_size)) {
      if (next != edge.from) edges.push_back({edge.to, next});
    }
  }
  edges.erase(edges.begin());
  return edges;
}

std::vector<Edge> CollectOnTree(int root, int world_size) {
  std::vector<Edge> edges = SpreadOnTree(root, world_size);
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

Way AverageWay(const Topology& topology, int root, int world_size) {
  Way way = Summed(topology.reduce(root, world_size));
  const std::vector<Edge> back = topology.broadcast(root, world_size);
  way.edges.insert(way.edges.end(), back.begin(), back.end());
  return way;
}

Way WayOf(const Topology& topology, v1::Collective collective, int root, int segment,
          int world_size) {
  switch (collective) {
    case v1::COLLECTIVE_REDUCE:
      return Summed(topology.reduce(root, world_size));
    case v1::COLLECTIVE_BROADCAST:
      return Copied(topology.broadcast(root, world_size));
    case v1::COLLECTIVE_SEND_RECV:
      return Copied(
          Path(topology.broadcast(root, world_size), (root + world_size - 1) % world_size));
    case v1::COLLECTIVE_REDUCE_SCATTER:
      return Summed(topology.reduce(segment, world_size));
    case v1::COLLECTIVE_ALL_GATHER:
      return Copied(topology.broadcast(segment, world_size));
    case v1::COLLECTIVE_GATHER:
      return Copied(Path(topology.broadcast(segment, world_size), root));
    case v1::COLLECTIVE_SCATTER:
      return Copied(Path(topology.broadcast(root, world_size), segment));
    default:
      return AverageWay(topology, topology.folds ? (segment + world_size - 1) % world_size : 0,
                        world_size);
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

Route RouteOf(const Topology& topology, v1::Collective collective, int root, int world_size) {
  Route route;
  route.segments = SegmentsOf(topology, collective, world_size);
  std::vector<Way> ways;
  size_t longest = 0;
  for (int segment = 0; segment < route.segments; ++segment) {
    ways.push_back(WayOf(topology, collective, root, segment, world_size));
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
