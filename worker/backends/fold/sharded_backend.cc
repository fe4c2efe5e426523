#include "absl/strings/str_cat.h"
#include "worker/backends/fold/fold_backend.h"

namespace gradwire {
namespace {

// A share for each separate aggregator if there are any, else for each rank at its carrier.
std::vector<Endpoint> AggregatorsOf(const View& view) {
  std::vector<Endpoint> endpoints;
  for (const std::string& address : view.aggregators) {
    const int share = static_cast<int>(endpoints.size());
    const std::string name = absl::StrCat("aggregator ", share, " (", address, ")");
    endpoints.push_back({name, address, absl::nullopt, {share}});
  }
  if (!endpoints.empty()) return endpoints;
  for (const Member& member : view.members) {
    const std::string name = absl::StrCat(NameOf(member.ranks), " (", member.address, ")");
    endpoints.push_back({name, member.address, member.incarnation, {}});
    for (Rank rank : member.ranks) endpoints.back().shares.push_back(rank.value());
  }
  return endpoints;
}

}  // namespace

// Every worker, or separate aggregator, folds its shares: direct reduce-scatter,
// then all-gather. There are as many shares as ranks, whoever carries these.
absl::StatusOr<std::unique_ptr<Backend>> MakeShardedBackend(const BackendOptions& options) {
  return std::make_unique<FoldBackend>(options, AggregatorsOf, true);
}

}  // namespace gradwire
