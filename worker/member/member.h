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
  // What the back end is made with, but for coordinator and security, which are the endpoint's.
  BackendOptions transport = {};
  absl::Duration step_timeout = absl::Minutes(5);
  // Several threads use the exchange, each with layouts of its own.
  bool shares_exchange = false;
};

struct MemberHooks {
  // What Status.Get answers and heartbeats tell; on threads of their own. Empty: nothing.
  std::function<v1::StatusReply()> status = nullptr;
  std::function<absl::optional<v1::Work>()> work = nullptr;
  // The coordinator has ended the run, or it is lost; before transfers end. On the session's
  // thread; once.
  std::function<void(const absl::Status&)> on_end = nullptr;
};

// What becomes of a run when training broke off.
struct NextView {
  enum Kind {
    kEnd,      // it is over, or will not go on: there is no view
    kGoOn,     // without a worker that was lost
    kUnpause,  // with all workers that were there: a pause is over
  };
  Kind kind = kEnd;
  View view = {};
  absl::Time heard;  // of SteadyNow: when the view came
};

// A worker's part in a run with others, whoever its ranks compute for:
//
//   RunEndpoint ── view, sealed, abort ──► RunMember
//   Backend ── Connect(view) ──► Exchange
//
//   Create ─► Join ─► Declare, Connect ─► … steps … ─► Finish ─► Leave
//                                  │   ▲
//                    AwaitNextView ▼   │ Connect     if a worker was lost, and steps are sealed
//
// One thread calls; Stop, ended, joined, address, ReportStep and clock_offset may be called from
// any. The first reason to end is kept: waits and transfers end with it.
class RunMember {
 public:
  // Makes the back end and serves the peers. Errors: those of MakeBackend, RunEndpoint::Create and
  // Serve.
  static absl::StatusOr<std::unique_ptr<RunMember>> Create(const MemberOptions& options,
                                                           MemberHooks hooks = {});
  // No transfer is under way, or they end with Cancelled.
  ~RunMember();
  RunMember(const RunMember&) = delete;
  RunMember& operator=(const RunMember&) = delete;

  // Where the peers reach this worker, "host:port".
  const std::string& address() const { return endpoint_->address(); }

  // Waits for the coordinator, sends `hello` (see RunEndpoint::Join), and waits for the view.
  // Errors: those of Session::Open and Join, how it ended, or FailedPrecondition if the back end
  // cannot carry as many ranks as the view gives it.
  absl::StatusOr<View> Join(v1::Hello hello);
  bool joined() const { return endpoint_->joined(); }
  // OK, or how the run ended for this worker: the coordinator's word, or the reason of Stop or
  // Fail.
  absl::Status ended() const { return changes_.ended(); }

  // Declares what the workers exchange (`buckets` in float32) of `tensors`, under a `name` for
  // messages, before or after Connect; all workers do so in the same order. Without tensors the
  // first bucket's bytes are one, called `name`. If `serving` names an optimiser, aggregators serve
  // the model. Errors: those of Session::DeclareLayout, at the latest a minute after a step
  // timeout; FailedPrecondition if the model is to be served, and workers are the aggregators.
  absl::StatusOr<LayoutId> Declare(const std::string& name, const Layout& tensors,
                                   const std::vector<BucketSpec>& buckets,
                                   const v1::Serving& serving = {});
  // Connects with the workers of `view`: the one of Join, or a further one. All layouts that were
  // declared are known to the exchange. Errors: those of Backend::Connect; Aborted if there is one
  // further still.
  absl::Status Connect(const View& view);
  // After Connect, until the next.
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
  // After `failure` (not OK) ended `step`: tells the coordinator if a peer did not answer, or was
  // late, and waits for a further view, a little or until the end of a pause.
  NextView AwaitNextView(const absl::Status& failure, Step step);
  // The run ends for this worker with `failure` (not OK) of `step`. The coordinator is told, unless
  // it has ended the run itself: its word counts more than what this worker saw, and is awaited as
  // by AwaitNextView if that has not been called in this view. `of_all`: every worker ends with it,
  // so nobody is to go on without this one. Returns how the run ended.
  absl::Status Fail(const absl::Status& failure, Step step, bool of_all = false);

  // See Session.
  void ReportStep(const v1::StepDone& done) { endpoint_->session().ReportStep(done); }
  absl::Duration clock_offset() { return endpoint_->session().clock_offset(); }

  // Peers are done with each other; see Exchange::Finish.
  absl::Status Finish(absl::Time deadline);
  // All is done; `reason` is for messages.
  absl::Status Leave(absl::string_view reason = "all steps are done");
  // After Leave: waits until the others are done too, or the coordinator is gone; at most 10 s.
  void AwaitEndOfRun();

  // This worker goes early: the others hear `reason`, and transfers end with it.
  void Stop(const absl::Status& reason);

 private:
  RunMember(const MemberOptions& options, MemberHooks hooks, std::unique_ptr<RunEndpoint> endpoint,
            std::unique_ptr<Backend> backend);
  absl::Status Serve();
  void OnNewView(View view);
  void OnPaused(const std::string& reason);
  void OnAbort(const absl::Status& status);
  absl::Status EndedOrChanged() const;
  // Ends waits and transfers with `reason`.
  void End(const absl::Status& reason);
  void CancelExchange(const absl::Status& reason);
  // Tells the coordinator of a peer that does not answer, or that is late, once a view.
  void ReportSuspect(const absl::optional<Suspect>& suspect, Step step);
  // The same if it is not known whose part of the step is late.
  void ReportLate(const absl::Status& late, Step step);
  absl::StatusOr<LayoutId> DeclareLayout(v1::Layout layout);

  const MemberOptions options_;
  const MemberHooks hooks_;
  StatusService status_service_;
  const std::unique_ptr<Backend> backend_;

  View view_;                        // the last that it joined or connected in
  absl::optional<Suspect> suspect_;  // whom Connect could not reach
  bool reported_ = false;            // a suspect, in this view
  bool told_of_end_ = false;         // AwaitNextView has given kEnd in this view
  ViewChanges changes_;
  absl::optional<LostTime> lost_;  // of which the coordinator has yet to be told
  std::vector<std::pair<LayoutId, std::vector<BucketSpec>>> layouts_;  // in float32
  TransferTotals past_;                                                // of earlier exchanges

  std::unique_ptr<Exchange> exchange_;
  Mutex mutex_;
  Exchange* shown_exchange_ ABSL_GUARDED_BY(mutex_) = nullptr;  // cancelled with the lock held
  Generation shown_generation_ ABSL_GUARDED_BY(mutex_);         // its view's
  absl::Time view_heard_ ABSL_GUARDED_BY(mutex_);               // when the latest came

  const std::unique_ptr<RunEndpoint> endpoint_;  // last: its threads use the above
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_MEMBER_MEMBER_H_
