#include "absl/strings/str_cat.h"
#include "worker/backends/aggregation_backend.h"

namespace gradwire {
namespace {

std::vector<Endpoint> WorkersOf(const View& view) {
  std::vector<Endpoint> endpoints;
  for (int rank = 0; rank < view.world_size; ++rank) {
    const std::string& address = view.Carrier(Rank(rank)).address;
    endpoints.push_back({absl::StrCat("rank ", rank, " (", address, ")"), address, Rank(rank)});
  }
  return endpoints;
}

}  // namespace

// Every worker folds its share: direct reduce-scatter, then all-gather.
absl::StatusOr<std::unique_ptr<Backend>> MakeShardedBackend(const BackendOptions& options) {
  return std::make_unique<AggregationBackend>(options, WorkersOf, true);
}

}  // namespace gradwire
