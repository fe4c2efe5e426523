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
#include "common/wire/layout.h"
#include "common/wire/view.h"
#include "coordinator/membership/admission.h"
#include "gradwire/v1/membership.pb.h"
#include "gradwire/v1/status.pb.h"

namespace gradwire {

// One stream of Membership.Session; numbers are never used twice.
using SessionId = StrongInt<struct SessionIdTag, uint64_t>;

struct MembershipConfig {
  RunId run_id{};
  CoordinatorEpoch epoch{1};
  int world_size = 1;
  int aggregators = 0;                       // separate ones that the run needs
  absl::Duration lease = absl::Seconds(10);  // silence after which a worker is lost
  absl::Duration rendezvous_timeout = absl::Seconds(600);
  absl::Duration suspect_grace = absl::Seconds(1);  // for a suspect's own loss to show
  uint64_t chunk_bytes = 256 << 10;
};

// What the caller must do, in the order of Outcome.actions.
struct FormRun {  // all ranks are there; `view.rank` means nothing here
  View view;
  std::vector<BucketSpec> buckets;
};
struct SendView {
  SessionId session;
  View view;
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
  Rank rank;
  v1::StepDone done;
};
struct TellLoss {  // of a rank, while the run was under way
  Rank rank;
  Step step;
  std::string cause;
};
struct EnterStep {  // all ranks have done the steps before it
  Step step;
};
struct EndRun {  // OK: all ranks finished. Aborted or DeadlineExceeded: see the message
  absl::Status status;
};
using Action = std::variant<FormRun, SendView, SendAbort, SendFinish, SendEcho, CloseSession,
                            TakeStep, TellLoss, EnterStep, EndRun>;

struct Outcome {
  std::vector<Action> actions;
  std::string why;  // one sentence for the log; empty if nothing worth saying happened
};

// Decides who takes part in the run, and when it is over. Pure: no thread, no
// clock, no gRPC. Events come in with the time, outcomes go out.
//
//         last worker or aggregator        all ranks left with finished
//   WAITING ------- let in ---------> RUNNING -----------------------> FINISHED
//      |   ^ |                           |
//      |   +-+ worker let in, or gone    | loss of a rank, shutdown
//      |                                 v
//      +----------------------------> ABORTED
//        rendezvous timeout, shutdown
//
// While WAITING a worker that goes frees its rank. While RUNNING the one place
// that says what the loss of a rank means is OnLoss, and OnAggregatorLoss for a
// separate aggregator.
//
// Sessions: each ends once, by CloseSession or by OnStreamClosed, and no event
// of it may follow its end. Times never fall.
class Membership {
 public:
  Membership(const MembershipConfig& config, absl::Time start);

  // A worker wants in. Its session is closed with
  //   InvalidArgument     see admission.h; or the session has said Hello before
  //   AlreadyExists       the rank or the incarnation is a member's
  //   FailedPrecondition  the run is full or over; or the incarnation was a member once
  Outcome OnHello(SessionId session, const v1::Hello& hello, absl::Time now);
  // A separate aggregator wants in. Closed with InvalidArgument, AlreadyExists or
  // FailedPrecondition as above.
  Outcome OnOffer(SessionId session, const v1::Offer& offer, absl::Time now);
  // Events of a session that said no Hello close it with InvalidArgument.
  Outcome OnHeartbeat(SessionId session, const v1::Heartbeat& heartbeat, absl::Time now);
  Outcome OnStepDone(SessionId session, const v1::StepDone& done, absl::Time now);
  // A neighbour does not answer. The suspect has `suspect_grace` to be lost by
  // a cause of its own, which then is the cause given; after that it is lost.
  Outcome OnSuspect(SessionId session, const v1::Suspect& suspect, absl::Time now);
  Outcome OnLeave(SessionId session, const v1::Leave& leave, absl::Time now);
  // A message that fits nowhere; `what` goes into the error.
  Outcome OnNonsense(SessionId session, absl::string_view what, absl::Time now);
  // The stream is gone without Leave; `cause` completes "rank 2 was lost: …".
  Outcome OnStreamClosed(SessionId session, absl::string_view cause, absl::Time now);
  // Leases, suspicions and the rendezvous; to be called about ten times a second.
  Outcome OnTick(absl::Time now);
  // The coordinator stops; `reason` goes to all workers.
  Outcome OnShutdown(absl::string_view reason);

  // State, reason and progress of all members; program and version are the caller's.
  // Without `now` it is not said how long members have been silent.
  v1::StatusReply Status(std::optional<absl::Time> now = std::nullopt) const;

 private:
  enum class State { kWaiting, kRunning, kFinished, kAborted };

  // A worker or separate aggregator that was let in. A worker stays, without a session, when it
  // left with all steps done.
  struct Worker {
    std::optional<SessionId> session;
    Incarnation incarnation;
    std::string address;
    absl::Time last_heard;
    v1::RankStatus progress;
  };
  struct Suspicion {
    Rank suspect;
    std::string cause;
    absl::Time deadline;
  };

  absl::Status CheckHello(const v1::Hello& hello) const;
  absl::Status CheckPlace(const v1::Hello& hello) const;
  absl::Status CheckOffer(const v1::Offer& offer) const;
  absl::Status CheckNewcomer(Incarnation incarnation) const;
  absl::Status CheckNeighbours(const v1::Hello& hello) const;
  // InvalidArgument if one of the address and the members' is a loopback address only.
  absl::Status CheckReachOf(const std::string& address) const;
  Rank Admit(SessionId session, const v1::Hello& hello, absl::Time now);
  Rank LowestFree() const;
  // The first step that not all ranks have done.
  Step SlowestStep() const;
  // The rank of the session if it said Hello.
  std::optional<Rank> Find(SessionId session) const;
  std::optional<size_t> FindAggregator(SessionId session) const;
  // Null, with the session closed in `outcome`, if it said no Hello.
  Worker* Hear(SessionId session, absl::string_view what, absl::Time now, Outcome* outcome);

  void UpdateReason();
  void FormIfComplete(Outcome* outcome);
  View MakeView() const;
  // Rank `rank` is gone, its session ended or to be ended: what does it mean?
  void OnLoss(Rank rank, absl::string_view cause, Outcome* outcome);
  void OnAggregatorLoss(size_t index, absl::string_view cause, Outcome* outcome);
  void FreeRank(Rank rank, absl::string_view cause, Outcome* outcome);
  void Finish(Rank rank, Outcome* outcome);
  // Ends the run: Abort to all sessions that are open.
  void Fail(const absl::Status& status, Outcome* outcome);
  void EndSession(Worker* worker, const absl::Status& status, Outcome* outcome);

  void ForgivePause(absl::Time now);
  void CheckLeases(absl::Time now, Outcome* outcome);
  void CheckAggregatorLeases(absl::Time now, Outcome* outcome);
  void CheckSuspicion(absl::Time now, Outcome* outcome);
  std::string Describe(Rank rank) const;  // "rank 2 (10.10.1.3:4711)"
  std::string DescribeAggregator(size_t index) const;
  std::string MissingMessage() const;

  const MembershipConfig config_;
  const absl::Time rendezvous_deadline_;
  State state_ = State::kWaiting;
  std::string reason_;  // one sentence behind the state
  Generation generation_{0};
  std::map<Rank, Worker> workers_;
  std::vector<Worker> aggregators_;  // separate ones; all have sessions
  Step step_{0};                     // that was entered last
  std::set<Incarnation> evicted_;
  std::optional<Terms> terms_;
  std::optional<Suspicion> suspicion_;  // the first that is not explained yet
  absl::Time last_tick_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_MEMBERSHIP_H_
