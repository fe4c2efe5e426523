#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_MEMBERSHIP_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_MEMBERSHIP_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/telemetry/phases.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"
#include "coordinator/membership/admission.h"
#include "coordinator/membership/assignment.h"
#include "coordinator/membership/layout_agreement.h"
#include "coordinator/membership/roster.h"
#include "coordinator/membership/straggler_watch.h"
#include "coordinator/membership/suspicions.h"
#include "gradwire/v1/membership.pb.h"
#include "gradwire/v1/status.pb.h"

namespace gradwire {

struct MembershipConfig {
  RunId run_id{};
  CoordinatorEpoch epoch{1};
  int world_size = 1;   // ranks
  int workers = 0;      // that carry them; 0: as many as ranks
  int aggregators = 0;  // separate ones that the run needs
  // Silence after which a member is lost: see LeaseFor, between these two.
  absl::Duration min_lease = absl::Seconds(1);
  absl::Duration lease = absl::Seconds(10);
  absl::Duration rendezvous_timeout = absl::Seconds(600);
  absl::Duration suspect_grace = absl::Seconds(1);  // for a suspect's own loss to show
  uint64_t chunk_bytes = 256 << 10;
  bool recover = false;  // whether the run goes on when a worker is lost, if all workers can
  int min_workers = 1;   // that it goes on with
  // How long a run that has fewer waits for one that fell silent; 0: it ends at once.
  absl::Duration pause_timeout = absl::ZeroDuration();
};

// What the caller must do, in the order of Outcome.actions.
struct FormRun {  // a view begins: the first, or the next; `view.self` means nothing here
  View view;
};
struct SendView {
  SessionId session;
  View view;
};
struct AgreeLayout {  // all workers have declared it; `buckets` in the type of the wire
  LayoutId layout;
  std::vector<BucketSpec> buckets;
  v1::Serving serving;
};
struct SendSealed {  // every worker of the view is ready for it
  SessionId session;
  Step step;
};
struct SendLayoutAgreed {
  SessionId session;
  LayoutId layout;
  std::vector<BucketSpec> buckets;  // to an aggregator only
  v1::Serving serving;              // likewise
};
struct SendPaused {
  SessionId session;
  std::string reason;
};
struct SendAbort {
  SessionId session;
  std::string reason;
};
struct SendFinish {  // to an aggregator
  SessionId session;
};
struct SendEcho {  // to a Heartbeat
  SessionId session;
  double sent = 0;  // as the Heartbeat says
};
struct CloseSession {  // the stream ends with `status`
  SessionId session;
  absl::Status status;
};
struct TakeStep {  // a rank has done a step
  v1::StepDone done;
};
struct TellLoss {  // of a worker with all its ranks, while the run was under way
  std::vector<Rank> ranks;
  Step step;  // in which it was lost: the first that is open
  std::string cause;
  std::string address;  // of the worker
  uint32_t pid;         // likewise; 0: unknown
};
struct TellCost {  // of going on with a view after the first, to one of its workers
  Generation generation;
  LostTime lost;
};
struct PauseRun {  // until the next FormRun, or EndRun
  Step step;       // that is open
  int workers;     // that are there
  std::string reason;
};
struct TellStraggler {  // others have waited for this worker for long
  std::vector<Rank> ranks;
  Step step;
  std::string what;  // the sentence of the log
};
struct EnterStep {  // all ranks have done the steps before it
  Step step;
};
struct EndRun {  // OK: all ranks finished. Aborted or DeadlineExceeded: see the message
  absl::Status status;
};
using Action = std::variant<FormRun, SendView, AgreeLayout, SendSealed, SendLayoutAgreed,
                            SendPaused, SendAbort, SendFinish, SendEcho, CloseSession, TakeStep,
                            TellLoss, TellCost, PauseRun, TellStraggler, EnterStep, EndRun>;

struct Outcome {
  std::vector<Action> actions;
  std::string why;  // one sentence for the log; empty if nothing worth saying happened

  // Adds to it.
  void Say(absl::string_view sentence);
};

// Decides who takes part in the run, what they exchange, and when it is over. Pure: no
// thread, no clock, no gRPC. Events come in with the time, outcomes go out.
//
//         last worker or aggregator        all workers left with finished
//   WAITING ------- let in ---------> RUNNING -----------------------> FINISHED
//      |   ^ |                           |
//      |   +-+ member let in, or gone    | loss of a member that ends the run, shutdown
//      |                                 v
//      +----------------------------> ABORTED
//        rendezvous timeout, shutdown
//
//   Membership ─┬─ admission        what a Hello or an Offer must say
//               ├─ Roster           who is there, leases; ranks by Assign
//               ├─ LayoutAgreement  what all have declared
//               ├─ CompareReplicas  whether all have the same parameters
//               ├─ StepTally        how far each rank is
//               ├─ Suspicions       who is lost if workers do not reach each other
//               └─ StragglerWatch   who holds the others up
//
// While WAITING a member that goes frees its place. While RUNNING the one place
// that says what the loss of a member means is OnLoss. If the run recovers, the others adopt a lost
// worker's ranks in a view of the next generation, which begins with the first step that is not
// sealed. A step is sealed when all workers of the view were ready for it; so all of them have
// applied what is before it, or hear that they may before they hear of a further view.
//
// With fewer workers than it is to go on with, a run that may waits, with its open step, and goes
// on when those that fell silent are heard again. Who was lost otherwise does not come back.
//
// Sessions: each ends once, by CloseSession or by OnStreamClosed, and no event
// of it may follow its end. Times are of a clock that never falls.
class Membership {
 public:
  Membership(const MembershipConfig& config, absl::Time start);

  // A worker, or a separate aggregator, wants in. Its session is closed with the error of
  // CheckHello or CheckOffer; FailedPrecondition if the run is over or has lost workers; or
  // InvalidArgument if the session has said Hello or Offer before.
  Outcome OnHello(SessionId session, const v1::Hello& hello, absl::Time now);
  Outcome OnOffer(SessionId session, const v1::Offer& offer, absl::Time now);
  // Events of a session that was not let in, or of an aggregator where only a worker's make
  // sense, or before the View where they need it, are treated as OnNonsense.
  Outcome OnHeartbeat(SessionId session, const v1::Heartbeat& heartbeat, absl::Time now);
  // One that differs from another worker's is a loss, and its session ends with
  // InvalidArgument; see LayoutAgreement.
  Outcome OnLayout(SessionId session, const v1::Layout& layout, absl::Time now);
  // Of a rank that the worker carries; else it is treated as OnNonsense.
  Outcome OnStepDone(SessionId session, const v1::StepDone& done, absl::Time now);
  // All means of a step are at a worker. Of an earlier view it is passed over; of another step than
  // the first that is not sealed it is treated as OnNonsense.
  Outcome OnReady(SessionId session, const v1::Ready& ready, absl::Time now);
  // A worker does not answer, or somebody's part of a step is late; of an earlier view it is passed
  // over. From the first suspicion on the two have `suspect_grace` to be lost by a cause of their
  // own, which then is the cause given; after that those are lost whom Suspicions says.
  Outcome OnSuspect(SessionId session, const v1::Suspect& suspect, absl::Time now);
  Outcome OnLeave(SessionId session, const v1::Leave& leave, absl::Time now);
  // A message that fits nowhere; `what` goes into the error.
  Outcome OnNonsense(SessionId session, absl::string_view what, absl::Time now);
  // The stream is gone without Leave; `cause` completes "rank 2 was lost: …".
  Outcome OnStreamClosed(SessionId session, absl::string_view cause, absl::Time now);
  // Leases, suspicions and the rendezvous; to be called each kTick.
  Outcome OnTick(absl::Time now);
  // The coordinator stops; `reason` goes to all members.
  Outcome OnShutdown(absl::string_view reason);

  // State ("paused" while a run waits),  reason and progress of all ranks; program and version are
  // the caller's. Without `now` it is not said how long members have been silent.
  v1::StatusReply Status(std::optional<absl::Time> now = std::nullopt) const;

 private:
  enum class State { kWaiting, kRunning, kFinished, kAborted };

  bool IsOver() const { return state_ == State::kFinished || state_ == State::kAborted; }
  // OK, or that the run is over, or has lost workers.
  absl::Status CheckOpen() const;
  Outcome Refuse(SessionId session, absl::string_view who, const absl::Status& status) const;
  // The last step of letting somebody in, who has this incarnation.
  Outcome Welcome(Incarnation incarnation);
  // The member of a session, which was heard now. Null, with `outcome` of nonsense, if there
  // is none.
  Participant* Hear(SessionId session, absl::string_view what, absl::Time now, Outcome* outcome);
  // The same for what only a worker of a run that has begun may say.
  Participant* HearWorker(SessionId session, absl::string_view what, absl::Time now,
                          Outcome* outcome);

  void FormIfComplete(Outcome* outcome);
  void SendViewToAll(Outcome* outcome);
  void SealIfAllAreReady(absl::Time now, Outcome* outcome);
  void OnDifference(const ReplicaDifference& difference, absl::Time now, Outcome* outcome);
  // Why the run cannot go on without one of its workers, whoever it is; empty if it can.
  std::string WhyNobodyGoesOn() const;
  // Of the workers those that are there, but for this one, if any.
  int CountWithout(const Participant* worker) const;
  // That those who are left without this one are too few; empty if they are enough.
  std::string TooFewWithout(const Participant& worker) const;
  // Both.
  std::string WhyNotGoOnWithout(const Participant& worker) const;
  // The same of any member; an aggregator's share is nobody else's.
  bool CanGoOnWithout(const Participant& member) const;
  // Whether the run waits rather than ends if this member falls silent.
  bool CanWaitFor(const Participant& member) const;
  // Who carries these ranks: "rank 2 is carried on by the worker of ranks 0, 2".
  std::string DescribeCarriers(const std::vector<Rank>& ranks) const;
  void GoOnWithout(Participant* lost, absl::string_view cause, absl::Time now, Outcome* outcome);
  void FinishIfAllHave(Outcome* outcome);
  View MakeView() const;
  // Serves it, and tells all.
  void Agree(LayoutId layout, Outcome* outcome);
  void TellAgreed(LayoutId layout, Outcome* outcome);
  // Who has finished declares nothing any more: a layout that it lacks can never be agreed.
  void CheckFinished(Outcome* outcome);
  // A member is gone, its session ended or to be ended: what does it mean?
  void OnLoss(Participant* member, absl::string_view cause, absl::Time now, Outcome* outcome);
  // Returns the step in which a member is lost: the first that is not sealed or, if nothing is
  // sealed, the first whose StepDone a rank of the member has not sent.
  Step StepOfLoss(const Participant& member) const;
  void TellOfLoss(const Participant& member, absl::string_view cause, Outcome* outcome) const;
  // A view of those that are there begins; these layouts are agreed by it.
  void BeginNextView(const std::vector<LayoutId>& agreed, absl::Time now, Outcome* outcome);
  // Whose session ends now, as the run goes on or waits without it.
  void Dismiss(Participant* lost, absl::string_view cause, Outcome* outcome);
  // What the loss of a worker means that fell silent, if the run waits: it may come back.
  void Await(Participant* silent, absl::string_view cause, absl::Time now, Outcome* outcome);
  size_t WorkersThere() const;
  // For this worker, too; `why` is a sentence of it.
  void Pause(const Participant& missing, const std::string& why, absl::Time now, Outcome* outcome);
  std::string WhoIsMissing() const;
  void ShowPause(Outcome* outcome);
  void OnHeardAgain(Participant* worker, absl::Time now, Outcome* outcome);
  void EndLongPause(absl::Time now, Outcome* outcome);
  void FreePlace(const Participant& member, absl::string_view cause, Outcome* outcome);
  void Finish(Participant* worker, Outcome* outcome);
  // Ends the run: Abort to all sessions that are open.
  void Fail(const absl::Status& status, Outcome* outcome);
  void EndSession(Participant* member, const absl::Status& status, Outcome* outcome);

  void NoteWork(Incarnation worker, const v1::Work& told, absl::Time now);
  // None if it has not begun with anything, or does not tell.
  std::optional<Work> WorkInThisView(Incarnation worker) const;
  void NameStragglers(absl::Time now, Outcome* outcome);
  void CheckLeases(absl::Time now, Outcome* outcome);
  // Who is through with all steps has little left to do: if it does not leave, it is lost.
  void CheckDeparture(absl::Time now, Outcome* outcome);
  void CheckSuspicions(absl::Time now, Outcome* outcome);
  std::string MissingMessage() const;

  const MembershipConfig config_;
  const absl::Time rendezvous_deadline_;
  State state_ = State::kWaiting;
  std::string reason_;  // one sentence behind the state
  Generation generation_{0};
  Roster roster_;
  Settings settings_;  // of all workers; of the first one that was let in
  LayoutAgreement layouts_;
  StepTally steps_;
  Step step_{0};        // that was entered last
  int threads_ = 0;     // of every worker, as the first view says
  bool seals_ = false;  // as the first view says
  // A worker has said Ready. A program that seals nothing though it may is through when it says so.
  bool is_sealing_ = false;
  Step open_{0};                               // the first that is not sealed
  absl::Time went_on_ = absl::InfinitePast();  // when a view after the first began
  // When a run that waits for workers ends.
  std::optional<absl::Time> paused_until_;
  std::map<Incarnation, std::string> missing_;  // for whom it waits, with a sentence of each
  bool through_ = false;  // workers need each other no more: all steps are sealed
  absl::Time through_at_ = absl::InfiniteFuture();
  StragglerWatch stragglers_;
  Suspicions suspicions_;  // of this view, not explained yet
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_MEMBERSHIP_H_
