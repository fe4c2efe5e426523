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

// Learns what happens in a run. Called with no lock held, one at a time, on a thread of gRPC or the
// ticker. It must not destroy the service.
class RunListener {
 public:
  virtual ~RunListener() = default;

  // A view begins; the first one when all workers have joined. Called before any worker learns of
  // it. AgreeLayout follows for each agreed layout. After an error no worker learns of it, and the
  // run ends with the error's message.
  virtual absl::Status On(const FormRun& form) = 0;
  // Called before any worker learns of it.
  virtual void On(const AgreeLayout& /*agree*/) {}
  // The run waits for workers until FormRun or EndRun.
  virtual void On(const PauseRun& /*pause*/) {}
  virtual void On(const TakeStep& /*take*/) {}
  // If the run continues, FormRun is next.
  virtual void On(const TellLoss& /*loss*/) {}
  // Not called for step 0.
  virtual void On(const EnterStep& /*enter*/) {}
  // Called once, after Abort was written to all that read it within kCloseGrace.
  virtual void On(const EndRun& end) = 0;
  virtual void On(const TellStraggler& /*straggler*/) {}
  virtual void On(const TellCost& /*cost*/) {}
  // All workers are ready for a step, and learn next that it is sealed. Must not block. Only if
  // MembershipConfig::records.
  virtual void On(const RecordStep& /*record*/) {}
  // The answer is MembershipService::Saved.
  virtual void On(const SaveState& /*save*/) {}
  // A checkpoint is given up before SaveState.
  virtual void On(const TellNoCheckpoint& /*none*/) {}
};

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
  // `listener` outlives the service. `log_prefix` precedes each line of its log.
  MembershipService(const MembershipConfig& config, RunListener* listener,
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

  // Asks the workers for their state before a step that is soon to come; SaveState follows. Any
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
  // Wakes the session's thread, which finds the stream broken. Does not call the listener.
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
  void Enact(const SendSealed& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const SendSave& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const SendSaved& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const SendLayoutAgreed& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const SendPaused& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const SendAbort& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const SendFinish& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const SendEcho& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const CloseSession& close) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const EndRun& end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All others are for the listener.
  template <typename News>
  void Enact(const News& news) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    queue_.push_back([this, news] { listener_->On(news); });
  }
  void Drain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void RunTicker();
  void CancelOverdue(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration lease_;
  const size_t most_silent_;  // sessions
  RunListener* const listener_;
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
