#include "worker/backends/tree/tree_topology.h"

#include <algorithm>

namespace gradwire {
namespace {

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

std::vector<Edge> Spread(int root, int world_size) {
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

std::vector<Edge> Collect(int root, int world_size) {
  std::vector<Edge> edges = Spread(root, world_size);
  std::reverse(edges.begin(), edges.end());
  for (Edge& edge : edges) std::swap(edge.from, edge.to);
  return edges;
}

}  // namespace

const Topology& TreeTopology() {
  static constexpr Topology kTree = {Spread, Collect, /*folds=*/false, /*shares_memory=*/false};
  return kTree;
}

}  // namespace gradwire
