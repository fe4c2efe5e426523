#ifndef GRADWIRE_WORKER_RUN_PARTICIPATION_H_
#define GRADWIRE_WORKER_RUN_PARTICIPATION_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/status_service.h"
#include "common/session/session.h"
#include "common/telemetry/lost_time.h"
#include "common/telemetry/trace_span.h"
#include "common/wire/layout.h"
#include "common/wire/tensor_digest.h"
#include "common/wire/view.h"
#include "worker/backends/backend.h"
#include "worker/options/worker_options.h"
#include "worker/run/stopper.h"
#include "worker/run/view_changes.h"

namespace gradwire {

// A worker's part in a run with others:
//
//   Session ── view, abort ──► Stopper
//   GrpcServer (Status, and what the back end serves)
//   Backend ── Connect(view) ──► Exchange
//
//   Create ─► Join ─► Connect ─► … training … ─► Finish ─► Leave
//                                   │    ▲
//                         AwaitView ▼    │ Reconnect     if a worker was lost, and steps are sealed
//
// The trainer's thread calls, in this order; Stop, Cancel, joined, address, ReportStep and
// clock_offset may be called from any thread.
class Participation {
 public:
  using GetStatus = std::function<v1::StatusReply()>;
  using GetWork = std::function<absl::optional<v1::Work>()>;

  // Makes the back end and serves the peers. `stopper` outlives this object and hears
  // when the run ends before its time. `on_span` hears of transfers and sums; may be empty.
  // `status` is what Status.Get answers, `work` what heartbeats tell. Errors: those of MakeBackend,
  // StartGrpcServer, AdvertisedAddress and Security::Read.
  static absl::StatusOr<std::unique_ptr<Participation>> Create(const WorkerOptions& options,
                                                               Stopper* stopper, OnSpan on_span,
                                                               GetStatus status,
                                                               GetWork work = nullptr);
  // No transfer is under way, or they end with Cancelled.
  ~Participation();
  Participation(const Participation&) = delete;
  Participation& operator=(const Participation&) = delete;

  // Where the peers reach this worker, "host:port".
  const std::string& address() const { return address_; }

  // Waits for the coordinator, sends `hello` with the address filled in, and waits for the
  // view. Errors: those of Session::Open and Join, the stopper's reason, or
  // FailedPrecondition if the back end cannot carry as many ranks as the view gives it.
  absl::StatusOr<View> Join(v1::Hello hello);
  bool joined() const;

  // Declares what the workers exchange (`buckets` in float32) and connects with them.
  // If `serving` names an optimiser, aggregators serve the model. Errors: those of
  // Session::DeclareLayout and Backend::Connect; FailedPrecondition if the model is to be served,
  // and workers are the aggregators.
  absl::StatusOr<LayoutId> Connect(const View& view, const Layout& tensors,
                                   const std::vector<BucketSpec>& buckets,
                                   const v1::Serving& serving = {});
  // After Connect: declares what else the workers exchange, in float32. `name` is for messages.
  // Errors: those of Session::DeclareLayout.
  absl::StatusOr<LayoutId> Declare(const std::string& name, const std::vector<BucketSpec>& buckets);
  // After Connect or Reconnect, until the next Reconnect.
  Exchange& exchange() { return *exchange_; }
  // What all exchanges together have moved.
  TransferTotals totals() const;

  // All means of `step` are here; `digests` of the parameters, if they are to be compared. `last`:
  // there is no such step, as all are done.
  void ReportReady(Step step, bool last, absl::Span<const TensorDigest> digests = {});
  // What it cost this worker to go on with the view; the coordinator is told with the next
  // ReportReady, of the sum if there was none since the last call.
  void TellLost(const LostTime& lost) { (lost_ ? *lost_ : lost_.emplace()) += lost; }
  // Waits until all workers of the view have said so. Aborted if a further view came before that;
  // DeadlineExceeded if the coordinator says nothing for long; or how the run ended.
  // Meanwhile a peer that does not answer is told of, which may be what the others wait for, and
  // after two step timeouts that the step is not sealed: others may take one to get its means, and
  // one for what they do behind it.
  absl::Status AwaitSealed(Step step);
  // After `status` (not OK) ended training in `step`: tells the coordinator if a peer did not
  // answer, or was late, and waits for a further view, a little or until the end of a pause. None:
  // the run is over, or will not go on.
  absl::optional<View> AwaitView(const absl::Status& status, Step step);
  // When the latest of them came, of SteadyNow.
  absl::Time view_heard() const;
  // Connects with the workers of a further view, with all layouts that were declared. Errors: those
  // of Backend::Connect; Aborted if there is one further still.
  absl::Status Reconnect(const View& view);

  // See Session.
  void ReportStep(const v1::StepDone& done) { session_->ReportStep(done); }
  absl::Duration clock_offset() { return session_->clock_offset(); }

  // Peers are done with each other; see Exchange::Finish.
  absl::Status Finish(absl::Time deadline);
  // All steps are done.
  absl::Status Leave() { return session_->Leave(true, "all steps are done"); }
  // After Leave: waits until the others are done too, or the coordinator is gone; at most 10 s.
  void AwaitEndOfRun() const;

  // This worker goes early: the others hear `reason`, and transfers end with it.
  void Stop(const absl::Status& reason);

  // After `status` (not OK) ended all, and AwaitView gave none: tells the coordinator, unless the
  // stopper has the cause from there.
  // `of_all`: every worker ends with it, so nobody is to go on without this one.
  void Explain(const absl::Status& status, bool of_all = false);

 private:
  Participation(const WorkerOptions& options, Stopper* stopper, v1::DType wire, Security security,
                GetWork work);
  absl::Status Serve(GetStatus status);
  absl::Status OpenSession();
  absl::Status Ended() const;
  absl::Status Connect(const View& view);
  void AddLayout(LayoutId layout, std::vector<BucketSpec> buckets);
  void OnNewView(View view);
  void OnPaused(const std::string& reason);
  void OnAbort(const absl::Status& status);
  void CancelExchange(const absl::Status& reason);
  // Tells the coordinator of a peer that does not answer, or that is late, once a view.
  void ReportSuspect(const absl::optional<Suspect>& suspect, Step step);
  // The same if it is not known whose part of the step is late.
  void ReportLate(const absl::Status& late, Step step);
  absl::StatusOr<LayoutId> DeclareLayout(v1::Layout layout);
  absl::Duration step_timeout() const { return absl::Seconds(options_.step_timeout_seconds); }

  const WorkerOptions options_;
  Stopper* const stopper_;
  const v1::DType wire_;  // of gradients
  const Security security_;
  const GetWork work_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<StatusService> status_service_;
  GrpcServer server_;
  std::string address_;

  absl::optional<Suspect> suspect_;  // whom Connect could not reach
  bool reported_ = false;            // a suspect, in this view
  ViewChanges changes_;
  bool seals_ = false;  // as the view says
  Generation generation_;
  absl::optional<LostTime> lost_;  // of which the coordinator has yet to be told
  std::vector<std::pair<LayoutId, std::vector<BucketSpec>>> layouts_;  // in float32
  TransferTotals past_;                                                // of earlier exchanges

  mutable Mutex mutex_;
  std::unique_ptr<Exchange> exchange_;
  // What stands in it is there to be called without the lock, and stays once it is set.
  std::unique_ptr<Session> session_;
  Exchange* shown_exchange_ ABSL_GUARDED_BY(mutex_) = nullptr;  // cancelled with the lock held
  Generation shown_generation_ ABSL_GUARDED_BY(mutex_);         // its view's
  Session* shown_session_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool joined_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time view_heard_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_PARTICIPATION_H_
