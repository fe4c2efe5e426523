#include "worker/backends/ring/ring_topology.h"

namespace gradwire {
namespace {

std::vector<Edge> Spread(int root, int world_size) {
  std::vector<Edge> edges;
  for (int i = 0; i + 1 < world_size; ++i) {
    edges.push_back({(root + i) % world_size, (root + i + 1) % world_size});
  }
  return edges;
}

// Begins at its right neighbour.
std::vector<Edge> Collect(int root, int world_size) {
  return Spread((root + 1) % world_size, world_size);
}

}  // namespace

const Topology& RingTopology() {
  static constexpr Topology kRing = {Spread, Collect, /*folds=*/true, /*shares_memory=*/true};
  return kRing;
}

}  // namespace gradwire
