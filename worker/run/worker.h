#ifndef GRADWIRE_WORKER_RUN_WORKER_H_
#define GRADWIRE_WORKER_RUN_WORKER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "common/base/output_file.h"
#include "common/state_transfer/state_service.h"
#include "common/telemetry/metrics.h"
#include "common/telemetry/metrics_server.h"
#include "common/telemetry/trace_log.h"
#include "common/wire/view.h"
#include "worker/backends/low_rank_exchange.h"
#include "worker/data/batches.h"
#include "worker/data/loader.h"
#include "worker/data_parallel/data_parallel.h"
#include "worker/member/member.h"
#include "worker/models/model.h"
#include "worker/options/traits.h"
#include "worker/options/worker_options.h"
#include "worker/run/evaluator.h"
#include "worker/run/state_keeper.h"
#include "worker/run/step_reporter.h"
#include "worker/run/stopper.h"
#include "worker/run/trainer.h"
#include "worker/state/held_state.h"
#include "worker/state/training_state.h"
#include "worker/sync/synchronizer.h"

namespace gradwire {

// One worker process: all parts that its ranks need.
//
//   RunMember ── view, end ──► Stopper ──► Trainer ◄── Loader ◄── TrainingBatches
//     └── Exchange ◄── Reducer ◄── Synchronizer ◄─┤
//   MetricsServer ◄── WorkerMetrics ◄── StepReporter ◄┘ ──► logs, summaries, progress
//
// With a sync that averages nothing there is no member. With --inference there is no trainer,
// loader or training data; the worker scores test data. Run once. Stop may be called from any
// thread.
class Worker {
 public:
  // `options` are already checked (see ParseWorkerOptions).
  explicit Worker(const WorkerOptions& options);
  ~Worker();

  // Trains until done, and logs the outcome. Returns the exit code of the process (docs/output.md).
  int Run();

  // Ends the run within 2 s, with `exit_code`; the other workers get `reason`.
  void Stop(const std::string& reason, int exit_code);

 private:
  absl::Status Prepare();
  absl::Status ServeMetrics();
  absl::Status LoadData();
  absl::Status MakeTheModel();
  absl::Status CheckData() const;
  void EmulateComputation();
  absl::Status Join();
  absl::Status OpenTrace();
  OnSpan SpanListener();
  absl::Status DivideModel();
  absl::Status PrepareTraining();
  absl::Status MakeBatches();
  absl::Status MakeTrainer();
  void MakeStateKeeper(const TrainerOptions& options);
  absl::Status CheckResumedStep() const;
  absl::Status MakeEvaluator();
  absl::Status StartLoader(int64_t first);
  absl::Status MakeTestBatches();
  absl::Status MakeReporter();
  absl::Status Attach();
  absl::Status AttachBuckets();
  absl::Status AttachLowRank(const Compression& compression);
  absl::Status DivideEvaluations();
  void ShareEvaluations();
  absl::Status Train();
  absl::Status TrainAndEvaluate();
  absl::Status InferAndWrite();
  absl::Status TrainFrom(int64_t first);
  absl::Status TrainUntil(int64_t steps);
  absl::Status End();
  bool GoesOn(const absl::Status& status);
  absl::Status GoOn();
  // `recomputes`: see Recovery.
  void TellOfRecovery(absl::Time view_taken, bool recomputes);
  void BeginPhase(const char* phase, Step step, bool waits, absl::optional<Bucket> bucket);
  bool IsEvaluated(int64_t steps) const;
  EvaluationSteps StepsOfEvaluations() const;
  absl::Status Infer();
  absl::Status Evaluate();
  void OnStep(absl::Span<const StepRecord> reports);
  void TellOfStep();
  absl::Status AwaitSealed(Step step);
  absl::Status AwaitLastCheckpoint();
  // Returns the hash of parameters and buffers that training does not change; empty if there are
  // none.
  std::string HashOfFrozen() const;
  absl::Status WriteResults();
  absl::Status SaveWeights();
  absl::Status WriteSummaries();
  std::string SummaryPath(Rank rank) const;
  void NoteEarlierSummaries();
  // Whether another worker, which carried the rank to its end, has written the summary at `path`.
  bool IsOfThisRun(const std::string& path, Rank rank) const;
  // Writes summaries of a run that ended early, without the model. If `reason` is OK, nothing is
  // written, now or later. From any thread; only the first call counts.
  void SummarizeEnd(const absl::Status& reason, int exit_code);
  void NoteOutputs(const absl::Status& written);
  absl::Status EndWithoutOutputs();
  absl::Status ExplainFailure(absl::Status status);
  v1::StatusReply GetStatus();
  Step CurrentStep() const;
  int64_t StepsPerEpoch() const;
  TrainingSize Size() const;
  int64_t TotalSteps() const;
  int EndCode(const absl::Status& status);

  const WorkerOptions options_;
  const SyncTraits sync_traits_;
  WorkerMetrics metrics_;
  Mutex end_mutex_;
  bool end_summarized_ ABSL_GUARDED_BY(end_mutex_) = false;
  std::unique_ptr<Stopper> stopper_;  // may call SummarizeEnd
  CurrentWork work_;

  std::shared_ptr<const Dataset> train_;
  std::shared_ptr<const Dataset> test_;  // null without --evaluate or --inference
  std::shared_ptr<Model> model_;
  std::string frozen_sha256_;  // of tensors that training does not change; empty if there are none
  std::shared_ptr<DataParallel> devices_;  // the model on all devices; null if there is one
  std::unique_ptr<TraceLog> trace_log_;    // null without --trace
  View view_;                              // changed with the lock held, by the trainer's thread
  std::vector<Rank> ranks_;                // of this worker, as the view says
  std::vector<Rank> first_ranks_;          // in the first view
  Step first_step_;                        // of the first view
  LayoutId layout_;                        // of the gradients
  std::string backend_in_force_;           // in the first view
  // Marks of each rank's summary before this run wrote one; set before shown_reporter_.
  std::vector<absl::optional<FileMark>> earlier_summaries_;
  View trained_view_;  // the last view in which it trained
  // Times of SteadyNow: when training broke off for another view (none: it goes on), which stays
  // until it goes on, even if that view fails, too; when the last view arrived; and since when no
  // lasting work was done (none: all work so far lasts).
  absl::optional<absl::Time> broken_off_;
  absl::Time view_heard_;
  absl::optional<absl::Time> in_vain_since_;
  struct {
    std::vector<StepRecord> records;  // empty: none
    TransferTotals totals;
    Generation generation;  // of the view in which it was computed
  } unsealed_;              // a step that is not yet reported
  std::unique_ptr<const TrainingBatches> batches_;
  std::unique_ptr<const EvaluationBatches> test_batches_;  // null without --inference
  std::string outputs_sha256_;                             // empty without --inference
  absl::Status results_;                                   // of the last WriteResults
  absl::Status outputs_;                                   // outputs that could not be written

  // Read by other threads; never changes once set.
  Mutex mutex_;
  StepReporter* shown_reporter_ ABSL_GUARDED_BY(mutex_) = nullptr;  // set when the view is known
  RunMember* shown_member_ ABSL_GUARDED_BY(mutex_) = nullptr;
  StateKeeper* shown_state_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::vector<Step> asked_early_ ABSL_GUARDED_BY(mutex_);  // for copies, before shown_state_ is set
  std::unique_ptr<StepReporter> reporter_;

  // The copy of the state that the coordinator fetches, and the service for it.
  HeldState held_state_;
  StateService state_service_;

  // The members below have threads that use the members above.
  std::unique_ptr<MetricsServer> metrics_server_;
  std::unique_ptr<RunMember> member_;          // null for a sync that averages nothing
  std::unique_ptr<LowRankExchange> low_rank_;  // uses the member's exchange; null without powersgd
  std::unique_ptr<Trainer> trainer_;           // uses the exchange
  std::unique_ptr<Evaluator> evaluator_;       // uses the exchange; null without --evaluate
  absl::optional<LayoutId> evaluations_;       // set if they are divided
  std::unique_ptr<Synchronizer> sync_;         // null for a sync that averages nothing
  std::unique_ptr<TrainingState> training_state_;
  std::unique_ptr<StateKeeper> state_;  // null without a member
  std::unique_ptr<Loader> loader_;
  uint64_t next_batch_ = 0;  // of the loader, counted over all carried ranks
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_WORKER_H_
