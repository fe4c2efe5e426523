#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/aggregation/aggregation_service.h"
#include "worker/backends/backend.h"
#include "worker/backends/exchange.h"
#include "worker/backends/fold/call_slots.h"
#include "worker/backends/fold/fold_exchange.h"
#include "worker/backends/fold/lane.h"

namespace gradwire {
namespace {

// The exact fold at one or several aggregators; each sums its shares of every bucket. Aggregators
// are the coordinator, all workers, or separate processes. See FoldExchange.
class FoldBackend : public Backend {
 public:
  // Returns all aggregators of a view.
  using EndpointsOf = std::function<std::vector<Endpoint>(const View& view)>;

  // `serves`: this worker may have shares.
  FoldBackend(const BackendOptions& options, EndpointsOf endpoints_of, bool serves);

  absl::StatusOr<std::unique_ptr<Exchange>> Connect(const View& view, const Ended& ended,
                                                    absl::optional<Incarnation>* suspect) override;
  std::vector<grpc::Service*> services() override {
    if (service_ == nullptr) return {};
    return {service_.get()};
  }

 private:
  const BackendOptions options_;
  const EndpointsOf endpoints_of_;
  Compressors compressors_;
  Traffic traffic_;                              // including the service's
  std::unique_ptr<AggregationService> service_;  // null if this worker serves none
};

FoldBackend::FoldBackend(const BackendOptions& options, EndpointsOf endpoints_of, bool serves)
    : options_(options), endpoints_of_(std::move(endpoints_of)), compressors_(options.compression) {
  if (!serves) return;
  service_ = std::make_unique<AggregationService>(
      AggregationObserver{[this](uint64_t bytes) { traffic_.received += bytes; },
                          [this](uint64_t bytes) { traffic_.sent += bytes; }, nullptr},
      CallMemoryOf(options));
}

absl::StatusOr<std::unique_ptr<Exchange>> FoldBackend::Connect(
    const View& view, const Ended& ended, absl::optional<Incarnation>* suspect) {
  auto exchange = std::make_unique<FoldExchange>(options_, view, endpoints_of_(view),
                                                 service_.get(), &compressors_, &traffic_);
  if (absl::Status started = exchange->Start(ended); !started.ok()) {
    if (const auto who = exchange->suspect()) *suspect = who->worker;
    return started;
  }
  return exchange;
}

// One share for each separate aggregator; if there are none, one for each rank at its carrier.
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

// Gather and Scatter at the coordinator, which folds whole gradients.
absl::StatusOr<std::unique_ptr<Backend>> MakeCoordinatorBackend(const BackendOptions& options) {
  auto endpoints = [options](const View&) {
    return std::vector<Endpoint>{{absl::StrCat("coordinator ", options.coordinator),
                                  options.coordinator,
                                  absl::nullopt,
                                  {0},
                                  kCoordinatorSilence}};
  };
  return std::make_unique<FoldBackend>(options, endpoints, false);
}

// Every worker or separate aggregator folds its shares: direct reduce-scatter, then all-gather.
// There are as many shares as ranks, whichever worker carries them.
absl::StatusOr<std::unique_ptr<Backend>> MakeShardedBackend(const BackendOptions& options) {
  return std::make_unique<FoldBackend>(options, AggregatorsOf, true);
}

}  // namespace gradwire
