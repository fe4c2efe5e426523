#include "bench/bounds.h"

#include <algorithm>

#include "worker/options/traits.h"

namespace gradwire {
namespace {

double RingFactor(int world_size) { return 2.0 * (world_size - 1) / world_size; }

bool LoadsCoordinator(absl::string_view backend) {
  return TraitsOfBackend(backend).links == LinkPattern::kCoordinator;
}

}  // namespace

LinkLoad LoadOfAverage(absl::string_view backend, int world_size, double bytes) {
  if (LoadsCoordinator(backend)) return {bytes, world_size * bytes};
  return {RingFactor(world_size) * bytes, 0};
}

LinkLoad LoadOfBroadcast(absl::string_view backend, int world_size, double bytes) {
  if (LoadsCoordinator(backend)) return {bytes, world_size * bytes};
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
