#ifndef GRADWIRE_WORKER_MEMBER_MEMBER_H_
#define GRADWIRE_WORKER_MEMBER_MEMBER_H_

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
#include "common/session/run_endpoint.h"
#include "common/telemetry/phases.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"
#include "worker/backends/backend.h"
#include "worker/member/view_changes.h"

namespace gradwire {

struct MemberOptions {
  RunEndpointOptions endpoint;
  std::string backend = "auto";  // a row of backends.inc, or kAutoBackend
  // Options of the back end, except coordinator and security, which are the endpoint's.
  BackendOptions transport = {};
  absl::Duration step_timeout = absl::Minutes(5);
  // Several threads use the exchange, each with its own layouts.
  bool shares_exchange = false;
};

struct MemberHooks {
  // Answers of Status.Get and contents of heartbeats, called on separate threads. May be empty.
  std::function<v1::StatusReply()> status = nullptr;
  std::function<absl::optional<v1::Work>()> work = nullptr;
  // Called once when the coordinator has ended the run or is lost, before transfers end. On the
  // session's thread.
  std::function<void(const absl::Status&)> on_end = nullptr;
  // Messages about checkpoints (see membership.proto), on the session's thread. May be empty.
  std::function<void(Step)> on_save = nullptr;
  std::function<void(const v1::Saved&)> on_saved = nullptr;
  // Further services for the coordinator and the peers; they must outlive the member.
  std::vector<grpc::Service*> services = {};
};

// How a run continues after training broke off.
struct NextView {
  enum Kind {
    kEnd,      // the run is over or will not go on; there is no view
    kGoOn,     // without a lost worker
    kUnpause,  // with the same workers, after a pause
  };
  Kind kind = kEnd;
  View view = {};
  absl::Time heard;  // time of SteadyNow at which the view arrived
};

// A worker's part in a run, whatever its ranks compute:
//
//   RunEndpoint ── view, sealed, abort ──► RunMember
//   Backend ── Connect(view) ──► Exchange
//
//   Create ─► Join ─► Declare, Connect ─► … steps … ─► Finish ─► Leave
//                                  │   ▲
//                    AwaitNextView ▼   │ Connect     if a worker was lost, and steps are sealed
//
// Call it from one thread; only Stop, ended, joined, address, ReportStep and clock_offset may be
// called from any. The first reason to end counts: it ends waits and transfers.
class RunMember {
 public:
  // Makes the back end and serves the peers. Errors: those of MakeBackend, RunEndpoint::Create and
  // Serve.
  static absl::StatusOr<std::unique_ptr<RunMember>> Create(const MemberOptions& options,
                                                           MemberHooks hooks = {});
  // Ends transfers that are under way with Cancelled.
  ~RunMember();
  RunMember(const RunMember&) = delete;
  RunMember& operator=(const RunMember&) = delete;

  // Returns the address at which peers reach this worker, "host:port".
  const std::string& address() const { return endpoint_->address(); }

  // Waits for the coordinator, sends `hello` (see RunEndpoint::Join), and waits for the view.
  // Errors: those of Session::Open and Join; how the run ended; FailedPrecondition if the back end
  // cannot carry as many ranks as the view gives it.
  absl::StatusOr<View> Join(v1::Hello hello);
  bool joined() const { return endpoint_->joined(); }
  // Returns OK, or how the run ended for this worker: by the coordinator, or the reason of Stop or
  // Fail.
  absl::Status ended() const { return changes_.ended(); }

  // Declares a layout: `buckets` (in float32) of `tensors`, with a `name` for messages. Call it
  // before or after Connect, in the same order on all workers. Without tensors, the bytes of the
  // first bucket are one tensor called `name`. If `serving` names an optimizer, aggregators serve
  // the model. Errors: those of Session::DeclareLayout, at most a minute after a step timeout;
  // FailedPrecondition if the model would be served but workers are the aggregators.
  absl::StatusOr<LayoutId> Declare(const std::string& name, const Layout& tensors,
                                   const std::vector<BucketSpec>& buckets,
                                   const v1::Serving& serving = {});
  // Connects with the workers of `view`, the view of Join or a later one. The exchange knows all
  // declared layouts. Errors: those of Backend::Connect; Aborted if a newer view exists.
  absl::Status Connect(const View& view);
  // Valid after Connect, until the next.
  Exchange& exchange() { return *exchange_; }
  // Returns the totals of all exchanges.
  TransferTotals totals() const;

  // Reports that all means of `step` have arrived; `digests`: of the parameters, if they are
  // compared. `last`: there is no such step, because all are done. `samples`: see Ready; dropped
  // unless the view records them.
  void ReportReady(Step step, bool last, absl::Span<const TensorDigest> digests = {},
                   absl::Span<const v1::RankSamples> samples = {});
  // Adds the time that this worker lost by going on in the view. The next ReportReady sends the sum
  // to the coordinator.
  void TellLost(const LostTime& lost) { (lost_ ? *lost_ : lost_.emplace()) += lost; }
  // Waits until all workers of the view have reported `step`. Returns Aborted if a newer view came
  // first, DeadlineExceeded if the coordinator stays silent for long, or how the run ended.
  // Meanwhile it reports a peer that does not answer, because the others may wait for that peer.
  // After two step timeouts it reports that the step is not sealed: other workers may take one
  // timeout for its means and one for their next step.
  absl::Status AwaitSealed(Step step);
  // After `failure` (not OK) ended `step`: reports a peer that did not answer or was late, and
  // waits for a newer view: shortly, but at most 45 s while the coordinator stands still, or until
  // the end of a pause.
  NextView AwaitNextView(const absl::Status& failure, Step step);
  // Ends the run for this worker with `failure` (not OK) of `step`, and tells the coordinator. If
  // the coordinator has ended the run itself, its reason counts more; waits for it as AwaitNextView
  // does, unless that was called in this view. `of_all`: every worker ends with this error, so none
  // goes on without this one. Returns how the run ended.
  absl::Status Fail(const absl::Status& failure, Step step, bool of_all = false);

  // Returns OK while training can go on in the view of Connect: Aborted if a newer view exists, or
  // how the run ended.
  absl::Status EndedOrChanged() const;

  // Returns a new channel to the coordinator.
  std::shared_ptr<grpc::Channel> CoordinatorChannel() const;

  // See Session.
  void ReportHolds(const v1::Holds& holds) { endpoint_->session().ReportHolds(holds); }
  void ReportStep(const v1::StepDone& done) { endpoint_->session().ReportStep(done); }
  absl::Duration clock_offset() { return endpoint_->session().clock_offset(); }

  // Ends the exchange with the peers; see Exchange::Finish.
  absl::Status Finish(absl::Time deadline);
  // Leaves the run after the last step; `reason` is for messages.
  absl::Status Leave(absl::string_view reason = "all steps are done");
  // After Leave: waits until the others are done too, or the coordinator is gone; at most 10 s.
  void AwaitEndOfRun();

  // Leaves early: ends transfers with `reason`, which the other workers get.
  void Stop(const absl::Status& reason);

 private:
  RunMember(const MemberOptions& options, MemberHooks hooks, std::unique_ptr<RunEndpoint> endpoint,
            std::unique_ptr<Backend> backend);
  absl::Status Serve();
  void OnNewView(View view);
  void OnPaused(const std::string& reason);
  void OnAbort(const absl::Status& status);
  // Ends waits and transfers with `reason`.
  void End(const absl::Status& reason);
  void CancelExchange(const absl::Status& reason);
  // Reports a peer that does not answer or is late, once a view.
  void ReportSuspect(const absl::optional<Suspect>& suspect, Step step);
  // Waits for a newer view as long as the coordinator may need to decide.
  absl::optional<View> AwaitVerdict();
  // Reports a late step if the late worker is unknown.
  void ReportLate(const absl::Status& late, Step step);
  absl::StatusOr<LayoutId> DeclareLayout(v1::Layout layout);

  const MemberOptions options_;
  const MemberHooks hooks_;
  StatusService status_service_;
  const std::unique_ptr<Backend> backend_;

  View view_;                        // the last in which it joined or connected
  absl::optional<Suspect> suspect_;  // that Connect could not reach
  bool reported_ = false;            // a suspect, in this view
  bool told_of_end_ = false;         // AwaitNextView has returned kEnd in this view
  ViewChanges changes_;
  absl::optional<LostTime> lost_;  // not yet reported to the coordinator
  std::vector<std::pair<LayoutId, std::vector<BucketSpec>>> layouts_;  // in float32
  TransferTotals past_;                                                // of earlier exchanges

  std::unique_ptr<Exchange> exchange_;
  Mutex mutex_;
  Exchange* shown_exchange_ ABSL_GUARDED_BY(mutex_) = nullptr;  // cancelled with the lock held
  Generation shown_generation_ ABSL_GUARDED_BY(mutex_);         // its view's
  absl::Time view_heard_ ABSL_GUARDED_BY(mutex_);               // when the latest came

  const std::unique_ptr<RunEndpoint> endpoint_;  // last: its threads use the members above
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_MEMBER_MEMBER_H_
