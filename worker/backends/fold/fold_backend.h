#ifndef GRADWIRE_WORKER_BACKENDS_FOLD_FOLD_BACKEND_H_
#define GRADWIRE_WORKER_BACKENDS_FOLD_FOLD_BACKEND_H_

#include <functional>
#include <memory>
#include <vector>

#include "common/aggregation/aggregation_service.h"
#include "worker/backends/backend.h"
#include "worker/backends/fold/lane.h"
#include "worker/backends/traffic.h"

namespace gradwire {

// The exact fold at one or several aggregators, each of which sums its shares of
// every bucket: at the coordinator, at all workers, or at separate processes. See
// FoldExchange.
class FoldBackend : public Backend {
 public:
  // All aggregators of a view.
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
  Traffic traffic_;                              // with that of the service
  std::unique_ptr<AggregationService> service_;  // null if this worker serves none
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_FOLD_FOLD_BACKEND_H_
