#ifndef GRADWIRE_WORKER_RUN_WORKER_H_
#define GRADWIRE_WORKER_RUN_WORKER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/mutex.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/status_service.h"
#include "common/session/session.h"
#include "common/telemetry/metrics.h"
#include "common/telemetry/metrics_server.h"
#include "common/telemetry/trace_log.h"
#include "common/wire/view.h"
#include "worker/backends/backend.h"
#include "worker/data/loader.h"
#include "worker/data/training_batches.h"
#include "worker/models/model.h"
#include "worker/options/worker_options.h"
#include "worker/report/progress.h"
#include "worker/report/step_log.h"
#include "worker/report/summary.h"
#include "worker/run/evaluator.h"
#include "worker/run/stopper.h"
#include "worker/run/trainer.h"
#include "worker/sync/synchronizer.h"

namespace gradwire {

// One worker process: everything that a rank needs, put together.
//
//   Session ── view, abort ──► Stopper ──► Trainer ◄── Loader ◄── TrainingBatches
//   GrpcServer (Neighbor, Status)             │
//        └──────── Backend ◄── Synchronizer ◄─┘
//   MetricsServer ◄── WorkerMetrics ◄── reports of each step ──► log, summary, progress
//
// With sync `none` there is no session, server or back end. Run once. Stop may
// be called from any thread.
class Worker {
 public:
  // `options` are checked (see ParseWorkerOptions).
  explicit Worker(const WorkerOptions& options);
  ~Worker();

  // Trains until done. Logs what happened. Returns the exit code of the
  // process (README, "Exit codes").
  int Run();

  // Ends the run within 2 s, with `exit_code`; the others hear `reason`.
  void Stop(const std::string& reason, int exit_code);

 private:
  absl::Status Prepare();
  absl::Status CheckOutputs();
  absl::Status LoadData();
  absl::Status MakeModelAndTrainer();
  absl::Status ServeMetrics();
  absl::Status JoinRun();
  OnSpan SpanListener();
  absl::Status OpenTrace();
  absl::Status JoinSession();
  absl::StatusOr<std::string> ServePeers();
  v1::Hello MakeHello(const std::string& address) const;
  absl::Status MakeReports();
  absl::Status StartLoader();
  absl::Status Train();
  void OnStep(const StepReport& report);
  // Those of the step.
  TransferTotals CountTransfers(const StepReport& report);
  void TellCoordinator(const StepReport& report, const TransferTotals& transfers);
  absl::Status EvaluateAndReport();
  void OnAbort(const absl::Status& status);
  // The status to report for a failed run: the coordinator's word, if it comes.
  absl::Status ExplainFailure(absl::Status status);
  Summary MakeSummary();
  v1::StatusReply GetStatus();
  int64_t TotalSteps() const;
  int EndCode(const absl::Status& status);

  // Rank and world size of the view.
  Rank rank();
  int world_size();

  const WorkerOptions options_;
  const std::string backend_name_;  // "none" without a back end
  WorkerMetrics metrics_;
  std::unique_ptr<Stopper> stopper_;

  std::shared_ptr<const Dataset> train_;
  std::shared_ptr<const Dataset> test_;  // null without --evaluate
  std::shared_ptr<Model> model_;
  std::unique_ptr<TraceLog> trace_log_;  // null without --trace
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Backend> backend_;  // null for sync none
  std::unique_ptr<Synchronizer> sync_;
  std::unique_ptr<const TrainingBatches> batches_;
  std::unique_ptr<SummaryCollector> collector_;
  std::unique_ptr<ProgressReporter> progress_;
  std::unique_ptr<StepLog> step_log_;  // null without --log-jsonl
  absl::optional<Evaluation> evaluation_;
  v1::DType wire_ = v1::DTYPE_FLOAT32;  // of gradients; constant once the back end is made
  TransferTotals counted_;              // up to the last step

  Mutex mutex_;
  View view_ ABSL_GUARDED_BY(mutex_);
  v1::RankStatus rank_status_ ABSL_GUARDED_BY(mutex_);
  bool joined_ ABSL_GUARDED_BY(mutex_) = false;

  // From here on, what has threads that use the above.
  std::unique_ptr<StatusService> status_service_;
  GrpcServer server_;
  std::unique_ptr<MetricsServer> metrics_server_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Loader> loader_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_WORKER_H_
