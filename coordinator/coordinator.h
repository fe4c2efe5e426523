#ifndef GRADWIRE_COORDINATOR_COORDINATOR_H_
#define GRADWIRE_COORDINATOR_COORDINATOR_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/aggregation/aggregation_service.h"
#include "common/aggregation/aggregator.h"
#include "common/grpc_server.h"
#include "common/metrics.h"
#include "common/metrics_server.h"
#include "common/mutex.h"
#include "common/status_service.h"
#include "coordinator/coordinator_options.h"
#include "coordinator/membership_service.h"
#include "coordinator/rendezvous_service.h"

namespace gradwire {

// The coordinator of one run: everything that a run needs in the middle, and
// the servers that make it reachable.
//
//   grpc::Server ─┬─ MembershipService ──┬─ on_view ─────► Aggregator::Configure
//                 │                      └─ on_run_over ─► Aggregator::Abort, Wait
//                 ├─ RendezvousService ── RendezvousStore (aborted likewise)
//                 ├─ AggregationService ── Aggregator ── observer ─┐
//                 └─ StatusService                                 ▼
//   MetricsServer ────────────────────────────────────── CoordinatorMetrics
//
// Thread-safe.
class Coordinator {
 public:
  // Listens and waits for workers. Errors:
  //   InvalidArgument     an option that makes no sense, such as an address
  //   FailedPrecondition  an address cannot be bound, or the port file not be
  //                       written; says why
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(const CoordinatorOptions& options);

  // Stops if need be.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // Waits until the run is over. OK: all ranks finished. Else Aborted or
  // DeadlineExceeded with the reason that the workers got too.
  absl::Status Wait();

  // Ends the run, if it is not over, with `reason` to all workers; then closes
  // the servers. Takes at most a second. May be called again.
  void Stop(absl::string_view reason);

  const std::string& address() const { return grpc_.address; }  // "host:port" of gRPC
  std::string metrics_address() const;                          // empty if not served
  v1::StatusReply Status() const;

 private:
  explicit Coordinator(const CoordinatorOptions& options);
  absl::Status Listen(const CoordinatorOptions& options);
  absl::Status ServeMetrics(absl::string_view address);
  void OnView(const View& view, const std::vector<BucketSpec>& buckets);
  void OnRunOver(const absl::Status& status);
  void OnArrivals(const Arrivals& arrivals);

  const RunId run_id_;
  CoordinatorMetrics metrics_;

  Mutex mutex_;
  CondVar over_changed_;
  std::optional<absl::Status> over_ ABSL_GUARDED_BY(mutex_);  // how the run ended

  // From here on, what has threads that use the above.
  Aggregator aggregator_;
  AggregationService aggregation_;
  RendezvousStore rendezvous_store_;
  RendezvousService rendezvous_;
  MembershipService membership_;
  StatusService status_;
  std::unique_ptr<MetricsServer> metrics_server_;
  GrpcServer grpc_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_COORDINATOR_H_
