#include "absl/strings/str_cat.h"
#include "worker/backends/fold/aggregation_backend.h"

namespace gradwire {
namespace {

// The separate aggregators if there are any, else all workers.
std::vector<Endpoint> AggregatorsOf(const View& view) {
  std::vector<Endpoint> endpoints;
  for (const std::string& address : view.aggregators) {
    const std::string name = absl::StrCat("aggregator ", endpoints.size(), " (", address, ")");
    endpoints.push_back({name, address, absl::nullopt});
  }
  if (!endpoints.empty()) return endpoints;
  for (int rank = 0; rank < view.world_size; ++rank) {
    const std::string& address = view.Carrier(Rank(rank)).address;
    endpoints.push_back({absl::StrCat("rank ", rank, " (", address, ")"), address, Rank(rank)});
  }
  return endpoints;
}

}  // namespace

// Every worker, or separate aggregator, folds its share: direct reduce-scatter,
// then all-gather.
absl::StatusOr<std::unique_ptr<Backend>> MakeShardedBackend(const BackendOptions& options) {
  return std::make_unique<AggregationBackend>(options, AggregatorsOf, true);
}

}  // namespace gradwire
