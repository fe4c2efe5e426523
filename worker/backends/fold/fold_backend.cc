#include "worker/backends/fold/fold_backend.h"

#include <utility>

#include "worker/backends/fold/fold_exchange.h"

namespace gradwire {

FoldBackend::FoldBackend(const BackendOptions& options, EndpointsOf endpoints_of, bool serves)
    : options_(options), endpoints_of_(std::move(endpoints_of)), compressors_(options.compression) {
  if (!serves) return;
  service_ = std::make_unique<AggregationService>(
      AggregationObserver{[this](uint64_t bytes) { traffic_.received += bytes; },
                          [this](uint64_t bytes) { traffic_.sent += bytes; }, nullptr});
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

}  // namespace gradwire
