#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_MEMBERSHIP_SERVICE_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_MEMBERSHIP_SERVICE_H_

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"
#include "coordinator/membership/membership.h"
#include "gradwire/v1/membership.grpc.pb.h"
#include "gradwire/v1/status.pb.h"

namespace gradwire {

// Membership behind gRPC: converts messages to events of the pure Membership, and its actions to
// messages.
//
// Threads: gRPC provides one per open Session, which reads. Each session that receives messages has
// a writer thread, so that a worker that reads nothing delays no other. A ticker calls OnTick. The
// thread that brings an event also carries out the actions, in Membership's order and with no lock
// held. If another thread is already doing so, it leaves its actions to that one.
//
// End of a session: if the coordinator ends it while its thread reads, the worker (which received
// Abort) half-closes and gets the status. A worker that does not half-close within kCloseGrace is
// cancelled. That time begins when the coordinator has done its own part, which may wait for the
// disk. A session is cancelled, too, if it sends nothing within kFirstMessage, reads no message for
// a lease, or leaves kMostWaiting messages unread. If more silent sessions are open than a run can
// have, the longest silent one is cancelled.
class MembershipService final : public v1::Membership::Service {
 public:
  // Called with no lock held, one at a time, on a thread of gRPC or the ticker. They must not
  // destroy the service.
  struct Callbacks {
    // A view begins; the first one when all workers have joined. Called before any worker learns of
    // it. on_layout follows for each agreed layout. After an error no worker learns of it, and the
    // run ends with the error's message.
    std::function<absl::Status(const FormRun&)> on_view;
    // All workers have declared a layout; the buckets have the type on the wire. Called before any
    // worker learns of it. `serving` names no optimizer if the model is not served.
    std::function<void(const AgreeLayout&)> on_layout;
    // The run waits for workers until on_view or on_run_over.
    std::function<void(const PauseRun&)> on_pause;
    // A rank has done a step.
    std::function<void(const v1::StepDone&)> on_step_done;
    // A worker was lost during the run. If the run continues, on_view is next.
    std::function<void(const TellLoss&)> on_loss;
    // All ranks have done the steps before this one; not called for step 0.
    std::function<void(Step)> on_step;
    // Called once. OK: all ranks finished. Called after Abort was written to all that read it
    // within kCloseGrace.
    std::function<void(const absl::Status&)> on_run_over;
    // Others have waited long for a worker.
    std::function<void(const TellStraggler&)> on_straggler;
    // A view after the first had this cost for one of its workers.
    std::function<void(const TellCost&)> on_cost;
    // All workers are ready for a step, and learn next that it is sealed. Must not block. Only if
    // MembershipConfig::records; else it may be null.
    std::function<void(const v1::SealedRecord&)> on_sealed = nullptr;
    // All workers hold the state before a step. The answer is Saved.
    std::function<void(const SaveState&)> on_state = nullptr;
    // A checkpoint is given up before on_state, because a worker has no copy for it.
    std::function<void(const TellNoCheckpoint&)> on_no_checkpoint = nullptr;
  };

  // `log_prefix` precedes each line of its log.
  MembershipService(const MembershipConfig& config, Callbacks callbacks,
                    std::string log_prefix = "");
  // The server must be shut down, with no open Session.
  ~MembershipService() override;

  using Stream = grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>;
  grpc::Status Session(grpc::ServerContext* context, Stream* stream) override;

  // Returns state and progress, without program and version. Any thread.
  v1::StatusReply Status() const;

  // Ends the run with Abort to all workers if it is not over, then waits at most `grace` for the
  // open sessions to end.
  void Stop(absl::string_view reason, absl::Duration grace);

  // Asks the workers for their state before a step that is soon to come; on_state follows. Any
  // thread.
  void RequestState();
  // The state before `step`, of copies made in `generation`, was written, or given up: the workers
  // may free it. Any thread.
  void Saved(Step step, Generation generation, bool written);

 private:
  // How long the worker of an ended session has for its half-close.
  static constexpr absl::Duration kCloseGrace = absl::Milliseconds(300);
  // How long a session may take to send Hello or Offer.
  static constexpr absl::Duration kFirstMessage = absl::Seconds(5);
  // Most unread messages of one session.
  static constexpr size_t kMostWaiting = 1024;

  // An open Session call. Before it returns, its thread waits until `pending` is 0 and the writer
  // has ended, so that `stream` outlives all writes.
  struct OpenSession {
    grpc::ServerContext* context = nullptr;
    Stream* stream = nullptr;
    absl::Time opened_at;
    bool heard = false;               // it has sent a message
    bool acting = false;              // its thread carries out actions, so it does not read
    int pending = 0;                  // messages queued, waiting or being written
    std::optional<absl::Status> end;  // status of CloseSession
    absl::Time ended_at;
    std::string fault;  // why the coordinator cancelled it; empty: it did not

    std::thread writer;                          // started with the first message
    std::deque<v1::CoordinatorMessage> waiting;  // for the writer; the first may be under way
    absl::Time writing_since;                    // start of the first one's write
    bool closing = false;                        // the writer may end
    CondVar posted;                              // for the writer

    // Whether its worker waits for the coordinator, which has not done or sent all of its part yet.
    bool IsHeldUp() const { return acting || static_cast<size_t>(pending) > waiting.size(); }
    // The coordinator itself stood still that long; the time does not count as the other's silence.
    void Forgive(absl::Duration still, absl::Time now) {
      for (absl::Time* since : {&opened_at, &ended_at, &writing_since}) {
        *since = std::min(now, *since + still);
      }
    }
  };

  SessionId Open(grpc::ServerContext* context, Stream* stream);
  bool Ended(SessionId id) const;
  // `intact`: result of the checksum.
  void OnMessage(SessionId id, const absl::Status& intact, const v1::WorkerMessage& message);
  // Ends a session in which a corrupt message arrived.
  void OnBroken(SessionId id, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Checks that a first message comes from the host that it names.
  absl::Status CheckSender(SessionId id, const v1::WorkerMessage& message) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Outcome Judge(SessionId id, const v1::WorkerMessage& message, bool is_first)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reports a broken stream, waits for its writes, forgets it. Returns the status of the call.
  absl::Status Close(SessionId id, bool broke);
  // Lets the writer end; releases the lock meanwhile.
  void EndWriter(OpenSession* session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The writer's thread.
  void WriteAll(OpenSession* session);
  // Gives a message to the writer.
  void Post(OpenSession* session, v1::CoordinatorMessage message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until all messages are written, at most kCloseGrace.
  void AwaitWriters();
  // Wakes the session's thread, which finds the stream broken. Calls none of our callbacks.
  static void Cancel(OpenSession* session, std::string fault);
  // The same for a session that is not a member's.
  static void Dismiss(OpenSession* session, const absl::Status& status);
  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Queues the actions in order. Drain carries them out and releases the lock meanwhile.
  void Enqueue(const Outcome& outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EnqueueWrite(SessionId id, v1::CoordinatorMessage message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const FormRun& form) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const SendView& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const AgreeLayout& agree) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const SendSealed& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const RecordStep& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const SendSave& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const SendSaved& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const SaveState& save) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const TellNoCheckpoint& tell) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const SendLayoutAgreed& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const SendPaused& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const SendAbort& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const SendFinish& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const SendEcho& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const CloseSession& close) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const TakeStep& take) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const TellLoss& tell) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const TellCost& tell) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const PauseRun& pause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const TellStraggler& tell) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const EnterStep& enter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const EndRun& end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void RunTicker();
  void CancelOverdue(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration lease_;
  const size_t most_silent_;  // sessions
  const Callbacks callbacks_;
  const std::string log_prefix_;

  mutable Mutex mutex_;
  CondVar changed_;  // a message was queued, a session was forgotten, or stopping_ is set
  Membership membership_ ABSL_GUARDED_BY(mutex_);
  std::map<SessionId, OpenSession> sessions_ ABSL_GUARDED_BY(mutex_);
  SessionId last_id_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool view_failed_ ABSL_GUARDED_BY(mutex_) = false;  // no view may be sent any more
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread ticker_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_MEMBERSHIP_SERVICE_H_
