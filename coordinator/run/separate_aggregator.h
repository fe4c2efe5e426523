#ifndef GRADWIRE_COORDINATOR_RUN_SEPARATE_AGGREGATOR_H_
#define GRADWIRE_COORDINATOR_RUN_SEPARATE_AGGREGATOR_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/aggregation/aggregation_service.h"
#include "common/aggregation/aggregator.h"
#include "common/base/mutex.h"
#include "common/session/run_endpoint.h"
#include "common/telemetry/metrics.h"
#include "common/telemetry/metrics_server.h"
#include "coordinator/run/coordinator_options.h"

namespace gradwire {

// `gradwire-coordinator --aggregate-only`: sums a share of the gradients for back
// end `sharded` in another coordinator's run, so that workers send and receive
// each gradient once. Thread-safe.
class SeparateAggregator {
 public:
  // Listens. Errors: as for MetricsServer::Start, WritePortFile, and RunEndpoint::Create and Serve.
  static absl::StatusOr<std::unique_ptr<SeparateAggregator>> Start(
      const CoordinatorOptions& options);

  // Calls Stop.
  ~SeparateAggregator();
  SeparateAggregator(const SeparateAggregator&) = delete;
  SeparateAggregator& operator=(const SeparateAggregator&) = delete;

  // Connects to the run's coordinator, and takes part in the run until its end. OK: all ranks
  // finished. Otherwise the error of RunEndpoint::Open; that by which the session was refused or
  // ended (see Session::Join and OnAbort); or Cancelled, with the reason of Stop.
  absl::Status Run();

  // Leaves the run with `reason`, which ends the run for all; or ends the wait for the coordinator
  // or for the run. From any thread.
  void Stop(absl::string_view reason);

  const std::string& address() const { return endpoint_->address(); }  // for workers

 private:
  struct AgreedLayout {
    LayoutId layout;
    std::vector<BucketSpec> buckets;
    v1::Serving serving;
  };
  SeparateAggregator(const CoordinatorOptions& options, std::unique_ptr<RunEndpoint> endpoint);
  absl::Status Listen();
  absl::Status Connect();
  // Connects, waits for the first view, and serves it.
  absl::Status Join();
  // Creates the aggregator of `view` with the layouts so far, and ends the previous view's
  // aggregator. Does nothing if a later view is already served. Internal if the view has no share
  // for this aggregator.
  absl::Status Serve(const View& view);
  static void AddLayout(const AgreedLayout& agreed, Aggregator* aggregator);
  void OnNewView(const View& view);
  void OnLayout(const AgreedLayout& agreed);
  void OnRunOver(const absl::Status& status);

  const CoordinatorOptions options_;
  CoordinatorMetrics metrics_;
  AggregationService aggregation_;
  std::unique_ptr<MetricsServer> metrics_server_;

  Mutex mutex_;
  CondVar changed_;
  std::optional<absl::Status> over_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Aggregator> aggregator_ ABSL_GUARDED_BY(mutex_);  // null before the first view
  std::vector<AgreedLayout> layouts_ ABSL_GUARDED_BY(mutex_);
  absl::Status stopped_ ABSL_GUARDED_BY(mutex_);  // the reason of the first Stop; OK: none

  const std::unique_ptr<RunEndpoint> endpoint_;  // last: its threads use the members above
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_RUN_SEPARATE_AGGREGATOR_H_
