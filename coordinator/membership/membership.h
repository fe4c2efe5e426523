#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_MEMBERSHIP_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_MEMBERSHIP_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
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
#include "coordinator/membership/resuming.h"
#include "coordinator/membership/roster.h"
#include "coordinator/membership/straggler_watch.h"
#include "coordinator/membership/suspicions.h"
#include "gradwire/v1/ledger.pb.h"
#include "gradwire/v1/membership.pb.h"
#include "gradwire/v1/status.pb.h"

namespace gradwire {

struct MembershipConfig {
  RunId run_id{};
  CoordinatorEpoch epoch{1};
  int world_size = 1;   // ranks
  int workers = 0;      // processes that carry the ranks; 0: as many as ranks
  int aggregators = 0;  // separate aggregators
  // Bounds of the silence after which a member is lost: see LeaseFor.
  absl::Duration min_lease = absl::Seconds(1);
  absl::Duration lease = absl::Seconds(10);
  absl::Duration rendezvous_timeout = absl::Seconds(600);
  absl::Duration suspect_grace = absl::Seconds(1);  // for another cause of a loss to show
  uint64_t chunk_bytes = 256 << 10;
  bool recover = false;  // whether the run continues after the loss of a worker, if all workers can
  int min_workers = 1;   // with which it continues
  // How long a run with fewer workers waits for silent ones; 0: it ends at once.
  absl::Duration pause_timeout = absl::ZeroDuration();
  // Whether the caller records each sealed step. Steps are then sealed if all workers can, also
  // those of a single worker.
  bool records = false;
  bool keeps_state = false;       // whether the run has checkpoints
  uint64_t checkpoint_every = 0;  // steps; 0: only the last one and those of OnSaveRequest
  std::optional<ResumedRun> resumed = std::nullopt;  // set if the run continues a checkpoint
};

// Tasks of the caller, to be done in the order of Outcome.actions.
struct FormRun {  // a view begins, the first or a later one; `view.self` is not used
  View view;
  std::string cannot_seal;  // why steps are not sealed, for a caller that records; empty: they are
};
struct SendView {
  SessionId session;
  View view;
};
struct AgreeLayout {  // all workers have declared it; `buckets` have the type on the wire
  LayoutId layout;
  std::vector<BucketSpec> buckets;
  v1::Serving serving;
  bool is_evaluation = false;
};
struct SendSealed {  // all workers of the view are ready for it
  SessionId session;
  Step step;
  Generation generation;
};
struct RecordStep {  // the workers learn next that it is sealed; only if the caller records
  v1::SealedRecord record;
};
struct SendSave {  // copy the state before this step
  SessionId session;
  Step step;
};
struct SendSaved {  // the copy is not needed any more
  SessionId session;
  Step step;
  Generation generation;  // in which it was made
  bool written;
};
// A worker that holds a copy of the state.
struct StateDonor {
  Incarnation incarnation;
  std::string name;  // for messages
  std::string address;
  std::vector<v1::StateSection> sections;
};
// All workers of a view hold the state before a step; what they have in common is equal.
struct SaveState {
  Step step;
  Generation generation;
  std::vector<StateDonor> donors;
  Settings settings;
  std::map<std::string, std::string> environment;
  int threads = 0;
  uint64_t total_steps = 0;
  uint64_t steps_per_epoch = 0;
  v1::OptimizerConfig optimizer;
};
struct TellNoCheckpoint {  // a worker has no copy of the state before this step
  Step step;
  std::string why;
};
struct SendLayoutAgreed {
  SessionId session;
  LayoutId layout;
  std::vector<BucketSpec> buckets;  // only to an aggregator
  v1::Serving serving;              // only to an aggregator
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
struct SendEcho {  // reply to a Heartbeat
  SessionId session;
  double sent = 0;  // copied from the Heartbeat
};
struct CloseSession {  // ends the stream with `status`
  SessionId session;
  absl::Status status;
};
struct TakeStep {  // a rank has done a step
  v1::StepDone done;
};
struct TellLoss {  // a worker with all its ranks was lost during the run
  std::vector<Rank> ranks;
  Step step;  // the first that was not sealed
  std::string cause;
  std::string address;  // of the worker
  uint32_t pid;         // of the worker; 0: unknown
};
struct TellCost {  // of continuing in a view after the first, for one of its workers
  Generation generation;
  LostTime lost;
};
struct PauseRun {  // until the next FormRun or EndRun
  Step step;       // the open one
  int workers;     // number of workers present
  std::string reason;
};
struct TellStraggler {  // others have waited long for this worker
  std::vector<Rank> ranks;
  Step step;
  std::string what;  // sentence for the log
};
struct EnterStep {  // all ranks have done the steps before it
  Step step;
};
struct EndRun {  // OK: all ranks finished. Otherwise Aborted or DeadlineExceeded with a message
  absl::Status status;
};
using Action = std::variant<FormRun, SendView, AgreeLayout, SendSealed, RecordStep, SendSave,
                            SendSaved, SaveState, TellNoCheckpoint, SendLayoutAgreed, SendPaused,
                            SendAbort, SendFinish, SendEcho, CloseSession, TakeStep, TellLoss,
                            TellCost, PauseRun, TellStraggler, EnterStep, EndRun>;

struct Outcome {
  std::vector<Action> actions;
  std::string why;     // one sentence for the log; empty if there is no news
  bool warns = false;  // the sentence is a warning, whatever the actions are

  // Appends to `why`.
  void Say(absl::string_view sentence);
};

// Decides which processes take part in the run, what they exchange, and when the run is over. Pure:
// no thread, no clock, no gRPC. Events come in with their time; outcomes are returned.
//
//         last worker or aggregator        all workers left with finished
//   WAITING ------- let in ---------> RUNNING -----------------------> FINISHED
//      |   ^ |                           |
//      |   +-+ member let in, or gone    | loss of a member that ends the run, shutdown
//      |                                 v
//      +----------------------------> ABORTED
//        rendezvous timeout, shutdown
//
//   Membership ─┬─ admission        checks a Hello or an Offer
//               ├─ Roster           members and leases; ranks by Assign
//               ├─ LayoutAgreement  the layouts that all have declared
//               ├─ CompareReplicas  whether all have the same parameters
//               ├─ StepTally        each rank's progress
//               ├─ Suspicions       which worker is lost if workers cannot reach each other
//               └─ StragglerWatch   which worker holds up the others
//
// While WAITING, a member that goes frees its place. While RUNNING, only OnLoss decides what the
// loss of a member means. If the run recovers, the others adopt a lost worker's ranks in a view of
// the next generation, which begins with the first step that is not sealed. A step is sealed when
// all workers of the view were ready for it. So each of them has applied the steps before it, or
// learns that it may apply them before it learns of a later view.
//
// If a loss leaves fewer workers than `min_workers`, a run with a pause timeout pauses in its open
// step. It continues when all silent workers are heard again. A worker lost for another reason does
// not come back.
//
// Each session ends once, by CloseSession or by OnStreamClosed; no event of it may follow. Times
// must come from a monotonic clock.
class Membership {
 public:
  Membership(const MembershipConfig& config, absl::Time start);

  // Calls the event for the kind of `message`; OnNonsense if it has none.
  Outcome OnMessage(SessionId session, const v1::WorkerMessage& message, absl::Time now);
  // A worker or a separate aggregator asks to join. Its session is closed with the error of
  // CheckHello or CheckOffer; with FailedPrecondition if the run is over or has lost workers; or
  // with InvalidArgument if the session sent Hello or Offer before.
  Outcome OnHello(SessionId session, const v1::Hello& hello, absl::Time now);
  Outcome OnOffer(SessionId session, const v1::Offer& offer, absl::Time now);
  // Events are treated as OnNonsense if the session has not joined, if only a worker may send them
  // and it is an aggregator, or if they need the View and come before it.
  Outcome OnHeartbeat(SessionId session, const v1::Heartbeat& heartbeat, absl::Time now);
  // A layout that differs from another worker's is a loss, and its session ends with
  // InvalidArgument; see LayoutAgreement.
  Outcome OnLayout(SessionId session, const v1::Layout& layout, absl::Time now);
  // For a rank that the worker does not carry it is treated as OnNonsense.
  Outcome OnStepDone(SessionId session, const v1::StepDone& done, absl::Time now);
  // A worker has all means of a step. Ignored if it is of an earlier view. Treated as OnNonsense if
  // the step is not the first that is not sealed, or samples are not those of the worker's ranks.
  Outcome OnReady(SessionId session, const v1::Ready& ready, absl::Time now);
  // A worker does not answer another one, or its part of a step is late. Ignored if it is of an
  // earlier view. For `suspect_grace` after the first suspicion, either of the two may be lost by a
  // cause of its own, which is then the reported cause. After that, Suspicions decides which
  // workers are lost.
  Outcome OnSuspect(SessionId session, const v1::Suspect& suspect, absl::Time now);
  Outcome OnLeave(SessionId session, const v1::Leave& leave, absl::Time now);
  // A worker holds a copy of its state, or declines to make one. A copy of an earlier view is not
  // needed any more. Workers whose common state differs from most others' are lost.
  Outcome OnHolds(SessionId session, const v1::Holds& holds, absl::Time now);
  // A checkpoint is requested: all workers will copy their state before the same step.
  Outcome OnSaveRequest();
  // The state before a step, of copies made in `generation`, was written, or was given up.
  Outcome OnSaved(Step step, Generation generation, bool written);
  // A message that is invalid here; `what` is part of the error.
  Outcome OnNonsense(SessionId session, absl::string_view what, absl::Time now);
  // The stream ended without Leave; `cause` completes "rank 2 was lost: …".
  Outcome OnStreamClosed(SessionId session, absl::string_view cause, absl::Time now);
  // The caller does not read this session at the moment, so its silence does not count.
  void OnUnread(SessionId session, absl::Time now);
  // Checks leases, suspicions and the rendezvous. Must be called every kTick.
  Outcome OnTick(absl::Time now);
  // The coordinator stops; all members receive `reason`.
  Outcome OnShutdown(absl::string_view reason);

  // Returns state ("paused" while a run waits), reason and progress of all ranks. The caller sets
  // program and version. Without `now`, the silence of members is left out.
  v1::StatusReply Status(std::optional<absl::Time> now = std::nullopt) const;

 private:
  enum class State { kWaiting, kRunning, kFinished, kAborted };

  bool IsOver() const { return state_ == State::kFinished || state_ == State::kAborted; }
  // Returns an error if the run is over or has lost workers.
  absl::Status CheckOpen() const;
  Outcome Refuse(SessionId session, absl::string_view who, const absl::Status& status) const;
  // The last step of admitting the member with this incarnation.
  Outcome Welcome(Incarnation incarnation);
  // Returns the member of a session and notes that it was heard. Null if there is none; `outcome`
  // is then set as by OnNonsense.
  Participant* Hear(SessionId session, absl::string_view what, absl::Time now, Outcome* outcome);
  // The same for messages that only a worker may send, and only after the run has begun.
  Participant* HearWorker(SessionId session, absl::string_view what, absl::Time now,
                          Outcome* outcome);

  void FormIfComplete(Outcome* outcome);
  // Notifies the caller if all ranks have done more steps than before.
  void EnterStepIfAllDid(Outcome* outcome);
  void SendViewToAll(Outcome* outcome);
  // `last`: all steps are done, so there is none to record.
  void SealIfAllAreReady(bool last, absl::Time now, Outcome* outcome);
  v1::SealedRecord MakeSealedRecord() const;
  // Returns why steps are not sealed; empty if they are.
  std::string WhyNotSeal() const;
  void OnDifference(const ReplicaDifference& difference, absl::Time now, Outcome* outcome);
  // The common state of the workers differs, in the given tensor.
  void OnStateDifference(const ReplicaDifference& difference, absl::Time now, Outcome* outcome);
  // All workers hold the state before the same step.
  bool AllHold() const;
  SaveState TakeHolds();
  // Tells once that there will be no checkpoint before this step in this view.
  void TellOfNone(Step step, const std::string& why, Outcome* outcome);
  // Frees all copies, and reports the steps that will not be copied again in the next view.
  void GiveUpAllHolds(const std::string& why, Outcome* outcome);
  // Frees copies of this step, or of any, because not all workers will hold it.
  void GiveUpHolds(std::optional<Step> step, Outcome* outcome);
  // Returns why the run cannot continue without any one of its workers; empty if it can.
  std::string WhyNobodyGoesOn() const;
  // Returns the number of workers present, without `worker` if it is not null.
  int CountWithout(const Participant* worker) const;
  // Returns why the workers left without this one are too few; empty if they are enough.
  std::string TooFewWithout(const Participant& worker) const;
  // Returns the first reason of the two above.
  std::string WhyNotGoOnWithout(const Participant& worker) const;
  // The same for any member; no other member has an aggregator's share.
  bool CanGoOnWithout(const Participant& member) const;
  // Whether the run pauses instead of ending if this member falls silent.
  bool CanWaitFor(const Participant& member) const;
  // Returns "rank 2 is carried on by the worker of ranks 0, 2".
  std::string DescribeCarriers(const std::vector<Rank>& ranks) const;
  void GoOnWithout(Participant* lost, absl::string_view cause, absl::Time now, Outcome* outcome);
  void FinishIfAllHave(Outcome* outcome);
  View MakeView() const;
  // Serves the layout, and notifies all members.
  void Agree(LayoutId layout, Outcome* outcome);
  void TellAgreed(LayoutId layout, Outcome* outcome);
  // A worker that has finished declares no further layout: a layout that it lacks can never be
  // agreed.
  void CheckFinished(Outcome* outcome);
  // Handles the loss of a member whose session has ended or is being ended.
  void OnLoss(Participant* member, absl::string_view cause, absl::Time now, Outcome* outcome);
  // Returns the step in which a member is lost: the first that is not sealed or, if nothing is
  // sealed, the first whose StepDone a rank of the member has not sent.
  Step StepOfLoss(const Participant& member) const;
  void TellOfLoss(const Participant& member, absl::string_view cause, Outcome* outcome) const;
  // Begins a view of the members present; these layouts are agreed by the loss.
  void BeginNextView(const std::vector<LayoutId>& agreed, absl::Time now, Outcome* outcome);
  // Ends the session of a lost worker while the run continues or waits without it.
  void Dismiss(Participant* lost, absl::string_view cause, Outcome* outcome);
  // Handles a worker that fell silent if the run waits: it may come back.
  void Await(Participant* silent, absl::string_view cause, absl::Time now, Outcome* outcome);
  // Pauses the run, also for this worker; `why` is a sentence about it.
  void Pause(const Participant& missing, const std::string& why, absl::Time now, Outcome* outcome);
  std::string WhoIsMissing() const;
  void ShowPause(Outcome* outcome);
  void OnHeardAgain(Participant* worker, absl::Time now, Outcome* outcome);
  void EndLongPause(absl::Time now, Outcome* outcome);
  void FreePlace(const Participant& member, absl::string_view cause, Outcome* outcome);
  void Finish(Participant* worker, Outcome* outcome);
  // Ends the run: sends Abort to all open sessions.
  void Fail(const absl::Status& status, Outcome* outcome);
  void EndSession(Participant* member, const absl::Status& status, Outcome* outcome);

  void NoteWork(Incarnation worker, const v1::Work& told, absl::Time now);
  // Returns none if it has not begun any work in this view, or does not report it.
  std::optional<Work> WorkInThisView(Incarnation worker) const;
  void NameStragglers(absl::Time now, Outcome* outcome);
  void CheckLeases(absl::Time now, Outcome* outcome);
  // A worker that has done all steps must leave soon; otherwise it is lost.
  void CheckDeparture(absl::Time now, Outcome* outcome);
  void CheckSuspicions(absl::Time now, Outcome* outcome);
  std::string MissingMessage() const;

  const MembershipConfig config_;
  const absl::Time rendezvous_deadline_;
  State state_ = State::kWaiting;
  std::string reason_;  // one sentence about the state
  Generation generation_{0};
  Roster roster_;
  Settings settings_;  // of all workers; taken from the first one
  LayoutAgreement layouts_;
  std::string backend_;  // that exchanges the first layout, as the last worker said
  StepTally steps_;
  Step step_{0};        // the last that was entered
  int threads_ = 0;     // of every worker, as the first view says
  bool seals_ = false;  // as the first view says
  // Whether a worker has sent Ready. A program that may seal steps but never does is through when
  // it says so.
  bool is_sealing_ = false;
  Step open_{0};   // the first step that is not sealed
  Step taken_{0};  // that of the last SaveState
  // Later steps than that, without a checkpoint in this view.
  std::set<Step> declined_;
  absl::Time went_on_ = absl::InfinitePast();  // when the last view after the first began
  // End of the pause of a run that waits for workers.
  std::optional<absl::Time> paused_until_;
  std::map<Incarnation, std::string>
      missing_;           // workers that the run waits for, each with a sentence
  bool through_ = false;  // all steps are sealed: workers no longer need each other
  absl::Time through_at_ = absl::InfiniteFuture();
  StragglerWatch stragglers_;
  Suspicions suspicions_;  // of this view, without another explanation yet
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_MEMBERSHIP_H_
