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

// Membership behind gRPC: turns messages into events of the pure Membership and
// its actions into messages, and nothing else.
//
// Threads: gRPC lends one to every open Session, where it reads; each that is written to has a
// writer of its own, so that who takes nothing holds up nobody; a ticker calls OnTick. Whichever
// thread brings an event also carries out the actions, in the order in which Membership gave
// them, with no lock held; a thread that finds another one at it leaves its actions to that one.
//
// Ends of a session: when the coordinator ends it while its thread reads, the
// worker (told by Abort) half-closes and gets the status; one that does not
// within kCloseGrace is cancelled. So is who says nothing within kFirstMessage, who takes no
// message for a lease or lets kMostWaiting wait, and, when more say nothing than could be a
// run's, the one that does so for longest.
class MembershipService final : public v1::Membership::Service {
 public:
  // Called with no lock held, one at a time, on a thread of gRPC's or the
  // ticker's; they must not destroy the service.
  struct Callbacks {
    // A view begins, the first when all workers are there; called before any worker hears of it,
    // and followed by on_layout for each layout that is agreed.
    std::function<void(const View&)> on_view;
    // All workers have declared a layout, with these buckets in the type of the wire; called
    // before any worker hears of it. The serving names no optimiser if the model is not served.
    std::function<void(LayoutId, const std::vector<BucketSpec>&, const v1::Serving&)> on_layout;
    // The run waits for workers, until on_view or on_run_over.
    std::function<void(const PauseRun&)> on_pause;
    // A rank has done a step.
    std::function<void(const v1::StepDone&)> on_step_done;
    // A worker was lost while the run was under way. If this goes on, on_view is next.
    std::function<void(const TellLoss&)> on_loss;
    // All ranks have done the steps before this one; not called for step 0.
    std::function<void(Step)> on_step;
    // Once. OK: all ranks finished. Called after Abort was written to all that take it within
    // kCloseGrace.
    std::function<void(const absl::Status&)> on_run_over;
    // Others have waited for a worker for long.
    std::function<void(const TellStraggler&)> on_straggler;
    // Going on with a view after the first cost one of its workers this.
    std::function<void(const TellCost&)> on_cost;
  };

  // `log_prefix` stands in front of each line of its log.
  MembershipService(const MembershipConfig& config, Callbacks callbacks,
                    std::string log_prefix = "");
  // The server must be shut down: no Session may be open any more.
  ~MembershipService() override;

  using Stream = grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>;
  grpc::Status Session(grpc::ServerContext* context, Stream* stream) override;

  // State and progress, without program and version. Any thread.
  v1::StatusReply Status() const;

  // Ends the run with Abort to all workers if it is not over, then waits for
  // the open sessions to end, at most `grace`.
  void Stop(absl::string_view reason, absl::Duration grace);

 private:
  // How long an ended session's worker has for its half-close.
  static constexpr absl::Duration kCloseGrace = absl::Milliseconds(300);
  // How long it may take to say Hello or Offer.
  static constexpr absl::Duration kFirstMessage = absl::Seconds(5);
  // Messages to one session.
  static constexpr size_t kMostWaiting = 1024;

  // A Session call under way. Its thread waits for `pending` to be 0, and for the writer's end,
  // before it returns, so that `stream` lives as long as somebody may write.
  struct OpenSession {
    grpc::ServerContext* context = nullptr;
    Stream* stream = nullptr;
    absl::Time opened_at;
    bool heard = false;               // it has said something
    int pending = 0;                  // messages queued, waiting or being written
    std::optional<absl::Status> end;  // what CloseSession said
    absl::Time ended_at;
    std::string fault;  // why the coordinator cancelled it; empty: it did not

    std::thread writer;                          // from the first message on
    std::deque<v1::CoordinatorMessage> waiting;  // for it; the first may be under way
    absl::Time writing_since;                    // the first of them
    bool closing = false;                        // the writer may end
    CondVar posted;                              // for the writer

    // The coordinator itself stood still for so long: nothing of that was the other's.
    void Forgive(absl::Duration still, absl::Time now) {
      for (absl::Time* since : {&opened_at, &ended_at, &writing_since}) {
        *since = std::min(now, *since + still);
      }
    }
  };

  SessionId Open(grpc::ServerContext* context, Stream* stream);
  bool Ended(SessionId id) const;
  // `intact`: what its checksum says.
  void OnMessage(SessionId id, const absl::Status& intact, const v1::WorkerMessage& message);
  // Ends a session in which a message came broken.
  void OnBroken(SessionId id, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a first message comes from the host that it names.
  absl::Status CheckSender(SessionId id, const v1::WorkerMessage& message) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Outcome Judge(SessionId id, const v1::WorkerMessage& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reports a stream that broke, waits for its writes, forgets it. Returns the status to end with.
  absl::Status Close(SessionId id, bool broke);
  // Lets the writer end, letting go of the lock meanwhile.
  void EndWriter(OpenSession* session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The writer's thread.
  void WriteAll(OpenSession* session);
  // Gives a message to the writer.
  void Post(OpenSession* session, v1::CoordinatorMessage message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until nothing waits to be written, or for kCloseGrace.
  void AwaitWriters();
  // Wakes the session's thread, which finds the stream broken; calls nothing of ours.
  static void Cancel(OpenSession* session, std::string fault);
  // The same for one that is no member.
  static void Dismiss(OpenSession* session, const absl::Status& status);
  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Notes what must be done, in order; Drain does it, letting go of the lock meanwhile.
  void Enqueue(const Outcome& outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EnqueueWrite(SessionId id, v1::CoordinatorMessage message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const FormRun& form) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const SendView& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const AgreeLayout& agree) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enact(const SendSealed& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
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
  CondVar changed_;  // a session was written to or forgotten; or stopping_
  Membership membership_ ABSL_GUARDED_BY(mutex_);
  std::map<SessionId, OpenSession> sessions_ ABSL_GUARDED_BY(mutex_);
  SessionId last_id_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread ticker_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_MEMBERSHIP_SERVICE_H_
