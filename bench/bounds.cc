#include "bench/bounds.h"

#include <algorithm>

#include "worker/options/traits.h"

namespace gradwire {
namespace {

double RingFactor(int world_size) { return 2.0 * (world_size - 1) / world_size; }

// Children of the root of a binomial tree.
int TreeChildren(int world_size) {
  int children = 0;
  for (int bit = 1; bit < world_size; bit <<= 1) ++children;
  return children;
}

}  // namespace

LinkLoad LoadOfAverage(absl::string_view backend, int world_size, double bytes) {
  switch (TraitsOfBackend(backend).links) {
    case LinkPattern::kCoordinator:
      return {bytes, world_size * bytes};
    case LinkPattern::kTree:
      return {TreeChildren(world_size) * bytes, 0};
    case LinkPattern::kWorkers:
      break;
  }
  return {RingFactor(world_size) * bytes, 0};
}

LinkLoad LoadOfBroadcast(absl::string_view backend, int world_size, double bytes) {
  if (TraitsOfBackend(backend).links != LinkPattern::kWorkers) {
    return LoadOfAverage(backend, world_size, bytes);
  }
  return {world_size > 1 ? bytes : 0, 0};
}

double LeastSeconds(const LinkLoad& load, double link_gbit) {
  const double payload_per_second = link_gbit * 1e9 / 8 * kPayloadShare;
  return std::max(load.worker_bytes, load.coordinator_bytes) / payload_per_second;
}

double BusBandwidth(double algorithm_bandwidth, int world_size) {
  return RingFactor(world_size) * algorithm_bandwidth;
}

double WireBytes(absl::string_view wire) { return wire == "fp32" ? 4 : 2; }

}  // namespace gradwire
