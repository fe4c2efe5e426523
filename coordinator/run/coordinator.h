#ifndef GRADWIRE_COORDINATOR_RUN_COORDINATOR_H_
#define GRADWIRE_COORDINATOR_RUN_COORDINATOR_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/aggregation/aggregation_service.h"
#include "common/aggregation/aggregator.h"
#include "common/base/mutex.h"
#include "common/rpc/grpc_server.h"
#include "common/telemetry/metrics.h"
#include "common/telemetry/metrics_server.h"
#include "common/telemetry/trace_log.h"
#include "coordinator/membership/membership_service.h"
#include "coordinator/pages/run_history.h"
#include "coordinator/rendezvous/rendezvous_service.h"
#include "coordinator/run/coordinator_options.h"

namespace gradwire {

// The coordinator of one run: everything that a run needs in the middle, and
// the servers that make it reachable.
//
//   grpc::Server ─┬─ MembershipService ──┬─ on_view ─────► a new Aggregator
//                 │                      ├─ on_layout ───► Aggregator::AddLayout
//                 │                      └─ on_run_over ─► AggregationService::Abort, Wait
//                 ├─ RendezvousService ── RendezvousStore (aborted likewise)
//                 ├─ AggregationService ── Aggregator ── on_step ──┐
//                 └─ StatusService                                 ▼
//   MetricsServer ─┬──────────────────────────────────── CoordinatorMetrics
//                  └─ Answer: status, history, targets ◄─ RunHistory ◄─ MembershipService
//
// Thread-safe.
class Coordinator {
 public:
  // Listens and waits for workers. Errors:
  //   InvalidArgument     an option that makes no sense, such as an address; no token in its file
  //   NotFound            the token's file cannot be read
  //   FailedPrecondition  an address cannot be bound, or the port file not be
  //                       written; says why
  // `on_fold` hears of each sum of one bucket's terms, if it is not empty.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(const CoordinatorOptions& options,
                                                            OnSpan on_fold = nullptr);

  // Stops if need be.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // Waits until the run is over. OK: all ranks finished. Else Aborted or
  // DeadlineExceeded with the reason that the workers got too.
  absl::Status Wait();

  // After Wait: writes what this process did in an iteration, as JSON, or null if it averaged no
  // gradients. Errors: those of ReplaceFile.
  absl::Status WriteSummary(const std::string& path) const;

  // After Wait: where metrics are served, goes on for options.linger_seconds, so that
  // the last ones are scraped. Stop ends it.
  void Linger();

  // After Wait: if somebody follows /status.json, gives them a moment, at most
  // 2 s, to see how the run ended.
  void WaitForViewer();

  // Ends the run, if it is not over, with `reason` to all workers; then closes
  // the servers. Takes at most a second. May be called again.
  void Stop(absl::string_view reason);

  const std::string& address() const { return grpc_.address; }  // "host:port" of gRPC
  std::string metrics_address() const;                          // empty if not served
  v1::StatusReply Status() const;

 private:
  Coordinator(const CoordinatorOptions& options, OnSpan on_fold);
  absl::Status Listen(const CoordinatorOptions& options, const Security& security);
  absl::Status ServeMetrics(const CoordinatorOptions& options, const Security& security);
  void OnView(const View& view);
  void OnRunOver(const absl::Status& status);
  void OnWaits(const Waits& waits);
  void OnStepDone(const v1::StepDone& done);
  void OnLoss(const TellLoss& loss);
  void OnPause(const PauseRun& pause);
  void OnStraggler(const TellStraggler& straggler);
  void OnNextView(const View& view, absl::Time now);
  absl::optional<Page> Answer(const PageRequest& request);
  Page StatusPage();

  const RunId run_id_;
  const absl::Duration linger_;
  const int min_workers_;  // that a run which can go on without others needs
  const OnSpan on_fold_;
  const std::string log_prefix_;
  CoordinatorMetrics metrics_;

  Mutex mutex_;
  CondVar over_changed_;
  std::optional<absl::Status> over_ ABSL_GUARDED_BY(mutex_);          // how the run ended
  absl::Time viewed_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // /status.json was
  bool end_viewed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Terms come here, and tell how long ranks wait for each other; else their own work does.
  std::atomic<bool> sees_waits_{false};
  RunHistory history_;

  // From here on, what has threads that use the above.
  AggregationService aggregation_;
  // Used by membership's callbacks alone; null and meaningless before the first view.
  std::shared_ptr<Aggregator> aggregator_;  // of the view
  View view_;
  RendezvousStore rendezvous_store_;
  RendezvousService rendezvous_;
  MembershipService membership_;
  StatusService status_;
  std::unique_ptr<MetricsServer> metrics_server_;
  GrpcServer grpc_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_RUN_COORDINATOR_H_
