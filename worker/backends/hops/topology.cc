#include "worker/backends/hops/topology.h"

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

// Begins at its right neighbour.
std::vector<Edge> CollectOnRing(int root, int world_size) {
  return SpreadOnRing((root + 1) % world_size, world_size);
}

// The ranks beside `rank`: its children from the highest to the lowest, then its parent.
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

}  // namespace gradwire
