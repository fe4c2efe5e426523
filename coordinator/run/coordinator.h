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
#include "common/state_transfer/state_service.h"
#include "common/telemetry/metrics.h"
#include "common/telemetry/metrics_server.h"
#include "common/telemetry/trace_log.h"
#include "coordinator/checkpoints/checkpoint_keeper.h"
#include "coordinator/checkpoints/run_folder.h"
#include "coordinator/membership/membership_service.h"
#include "coordinator/pages/run_history.h"
#include "coordinator/rendezvous/rendezvous_service.h"
#include "coordinator/run/coordinator_options.h"
#include "coordinator/run/run_ledger.h"

namespace gradwire {

// The coordinator of one run, with its servers.
//
//   grpc::Server ─┬─ MembershipService ──┬─ FormRun ─────► a new Aggregator
//                 │                      ├─ AgreeLayout ─► Aggregator::AddLayout
//                 │                      ├─ RecordStep ──► RunLedger (with --run-dir; views, losses
//                 │                      │                 and the end, too)
//                 │                      └─ EndRun ──────► AggregationService::Abort, Wait
//                 ├─ RendezvousService ── RendezvousStore (aborted likewise)
//                 ├─ StateService ── the checkpoint that the run continues
//                 ├─ AggregationService ── Aggregator ── on_step ──┐
//                 └─ StatusService                                 ▼
//   MetricsServer ─┬──────────────────────────────────── CoordinatorMetrics
//                  └─ Answer: status, history, targets ◄─ RunHistory ◄─ MembershipService
//
// Thread-safe.
class Coordinator final : private RunListener {
 public:
  // Listens and waits for workers. Errors:
  //   InvalidArgument     an invalid option, such as an address; no token in its file
  //   NotFound            the token's file cannot be read
  //   and those of RunFolder::Open
  //   FailedPrecondition  an address cannot be bound, or the port file cannot be written; with
  //                       the reason
  //   Unavailable         another coordinator uses the run directory
  // or an error of RunLedger::Open. If `on_fold` is set, it is called for each sum of one bucket's
  // terms.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(const CoordinatorOptions& options,
                                                            OnSpan on_fold = nullptr);

  // Calls Stop.
  ~Coordinator() override;
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // Blocks until the run is over. OK: all ranks finished. Otherwise Aborted or DeadlineExceeded,
  // with the same reason as the workers receive.
  absl::Status Wait();

  // After Wait: writes this process's mean iteration as JSON, or null if it averaged no gradients.
  // Errors: as for ReplaceFile.
  absl::Status WriteSummary(const std::string& path) const;

  // Asks the workers for a checkpoint, if the run keeps any.
  void RequestCheckpoint() { membership_.RequestState(); }

  // After Wait: if metrics are served, blocks for options.linger_seconds, so that the last values
  // are scraped. Stop ends this.
  void Linger();

  // After Wait: if a client polls /status.json, waits up to 2 s until it has seen the end of the
  // run.
  void WaitForViewer();

  // Ends the run, if it is not over, and sends `reason` to all workers; then closes the servers
  // within about a second. May be called again.
  void Stop(absl::string_view reason);

  const std::string& address() const { return grpc_.address; }  // "host:port" of gRPC
  std::string metrics_address() const;                          // empty if not served
  v1::StatusReply Status() const;

 private:
  // `folder` and `ledger` are null without a run directory.
  Coordinator(const CoordinatorOptions& options, std::unique_ptr<RunFolder> folder,
              std::unique_ptr<RunLedger> ledger, const Security& security, OnSpan on_fold);
  void OnKept(const KeptCheckpoint& kept);
  void OnNoCheckpoint(Step step, absl::string_view why);
  absl::optional<Manifest::Ledger> SyncLedger();
  absl::Status RecordCheckpoint(Step step);
  void NoteResume();
  // The run begins, and its workers have these settings.
  void NoteSettings(const Settings& settings);
  void SayThatItIsFinished(Step step) const;
  absl::StatusOr<std::shared_ptr<SharedState>> FindState(const RunId& run_id, Step step) const;
  absl::Status Listen(const CoordinatorOptions& options, const Security& security);
  absl::Status ServeMetrics(const CoordinatorOptions& options, const Security& security);
  absl::Status On(const FormRun& form) override;
  void BeginView(const View& view);
  void OnNotDurable(const absl::Status& why);
  void OnWaits(const Waits& waits);
  void On(const AgreeLayout& agree) override;
  void On(const PauseRun& pause) override;
  void On(const TakeStep& take) override;
  void On(const TellLoss& loss) override;
  void On(const EnterStep& enter) override { metrics_.SetStep(enter.step); }
  void On(const EndRun& end) override;
  void On(const TellStraggler& straggler) override;
  void On(const TellCost& cost) override {
    metrics_.CountLostTime(history_.losses().AddCost(cost.generation, cost.lost));
  }
  void On(const RecordStep& record) override;
  void On(const SaveState& save) override { keeper_->Order(save); }
  void On(const TellNoCheckpoint& none) override { OnNoCheckpoint(none.step, none.why); }
  void OnNextView(const View& view, absl::Time now);
  absl::optional<Page> Answer(const PageRequest& request);
  Page StatusPage();

  const std::unique_ptr<RunFolder> folder_;  // null: the run keeps nothing
  const RunId run_id_;
  const absl::Duration linger_;
  const int min_workers_;  // that a run which can recover needs; 0: it ends after a loss
  const OnSpan on_fold_;
  const std::string log_prefix_;
  CoordinatorMetrics metrics_;

  Mutex mutex_;
  CondVar over_changed_;
  std::optional<absl::Status> over_ ABSL_GUARDED_BY(mutex_);  // how the run ended
  absl::Time viewed_ ABSL_GUARDED_BY(mutex_) =
      absl::InfinitePast();  // last request of /status.json
  bool end_viewed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // True if gradients pass here and show how long ranks wait for each other. Otherwise the waits
  // are derived from the ranks' own work.
  std::atomic<bool> sees_waits_{false};
  RunHistory history_;
  std::atomic<uint64_t> sealed_steps_{0};    // only with a run directory
  const std::unique_ptr<RunLedger> ledger_;  // null without a run directory

  // Members from here on have threads that use the members above.
  AggregationService aggregation_;
  // Only for On; null before the first view.
  std::shared_ptr<Aggregator> aggregator_;  // of the current view
  View view_;
  RendezvousStore rendezvous_store_;
  RendezvousService rendezvous_;
  MembershipService membership_;
  StatusService status_;
  StateService state_service_;
  std::unique_ptr<CheckpointKeeper> keeper_;  // null: the run keeps nothing
  std::unique_ptr<MetricsServer> metrics_server_;
  GrpcServer grpc_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_RUN_COORDINATOR_H_
