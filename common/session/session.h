#ifndef GRADWIRE_COMMON_SESSION_SESSION_H_
#define GRADWIRE_COMMON_SESSION_SESSION_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/rpc/security.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"
#include "gradwire/v1/membership.grpc.pb.h"

namespace gradwire {

struct SessionOptions {
  std::string coordinator;  // "host:port"
  absl::Duration connect_timeout = absl::Seconds(30);
  Incarnation incarnation = MakeIncarnation();
  absl::Duration heartbeat_interval = absl::Milliseconds(250);
  // Checked every 0.1 s while Open waits; true ends it with Cancelled.
  std::function<bool()> cancelled = [] { return false; };
  Security security = {};
  // Called by the heartbeat thread for the worker's current work. Empty: not reported.
  std::function<absl::optional<v1::Work>()> work = nullptr;
};

// Membership in a run: the client side of Membership.Session, for a worker or an aggregator.
//
//   Open ─► Join ─► View ─► DeclareLayout ─► ReportStep … ─► Leave(finished)
//                     │
//                     └─ on_abort: the run is over, or the coordinator is lost
//
// Threads: one reads the stream; one sends heartbeats, so that a busy trainer is not considered
// lost. All methods except Join and DeclareLayout may be called from any thread, also after the end
// (reports are then dropped).
class Session {
 public:
  // Called at most once, on the reading thread, with no lock held, if a session that received its
  // View ends before Leave or Cancel; possibly before Join has returned the View. It must not
  // destroy the session. The status is
  //   Aborted      the run is over; the coordinator's reason
  //   Unavailable  the stream broke: "lost the coordinator …", or a message on it was corrupt
  //   DataLoss     the coordinator received a corrupt message from this side
  //   Internal     the coordinator sent an invalid message
  using OnAbort = std::function<void(const absl::Status&)>;
  // Called on the reading thread, with no lock held, possibly before Offer has returned the View,
  // when all workers have declared this layout. `buckets` have the type on the wire; `serving`
  // names no optimizer if the model is not served.
  using OnLayout = std::function<void(LayoutId, const std::vector<BucketSpec>& buckets,
                                      const v1::Serving& serving)>;
  // Events of a worker with a View. Called on the reading thread, with no lock held, possibly
  // before Join has returned.
  struct Listener {
    std::function<void(Step)> on_sealed;    // see membership.proto
    std::function<void(View)> on_new_view;  // any except the first
    // No step continues until on_new_view.
    std::function<void(const std::string& reason)> on_paused;
    // Checkpoints; see membership.proto.
    std::function<void(Step)> on_save;
    std::function<void(const v1::Saved&)> on_saved;
  };

  // Connects; see ConnectToCoordinator for waiting and errors. Functions of `listener` may be
  // empty.
  static absl::StatusOr<std::unique_ptr<Session>> Open(SessionOptions options, OnAbort on_abort,
                                                       Listener listener = {});

  // Ends the stream if it is open. The coordinator treats that as a loss, unless Leave came before.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Sends `hello`, adding incarnation, protocol and version, and waits for the View as long as the
  // coordinator waits for workers. Call once. Errors:
  //   InvalidArgument, AlreadyExists, FailedPrecondition
  //                 the coordinator refused; see membership.proto
  //   Aborted       the run ended before it began (workers missing)
  //   Unavailable   the stream broke
  //   Cancelled     Cancel was called
  //   Unauthenticated  the coordinator requires another token
  absl::StatusOr<View> Join(v1::Hello hello);

  // The same for a separate aggregator that serves at `address` ("host:port"). It receives on_abort
  // with OK when all ranks have finished.
  absl::StatusOr<View> Offer(const std::string& address, OnLayout on_layout);

  // Declares the layout that this worker will exchange, with the type on the wire, and waits until
  // all workers have declared the same. Call n, counted from 0, sets id n. After Join, from one
  // thread at a time. Errors: InvalidArgument names the first tensor or bucket that differs from
  // another worker's; those of AwaitLayout; otherwise as Join.
  absl::StatusOr<LayoutId> DeclareLayout(v1::Layout layout,
                                         absl::Duration timeout = absl::Minutes(5));
  // Waits until all workers have declared the layout. DeadlineExceeded after `timeout`.
  absl::StatusOr<LayoutId> AwaitLayout(LayoutId layout, absl::Duration timeout);

  // For the coordinator's Status, and for the step that it names if `done.rank` is lost.
  void ReportStep(const v1::StepDone& done);
  // All means of a step have arrived, or all steps are done.
  void ReportReady(const v1::Ready& ready);
  // Reports a copy of this worker's state.
  void ReportHolds(const v1::Holds& holds);
  // Reports that the worker `suspect` has not answered in `step`, in the view of this generation,
  // since `at`, a time of SteadyNow. An Aborted `failure` means that it ended a call, perhaps
  // because of another worker; DeadlineExceeded means that its part of the step was late (kNobody:
  // any worker's). If the run is over because of that or of the true cause, on_abort comes within
  // about a second.
  static constexpr Incarnation kNobody{0};
  void ReportSuspect(Incarnation suspect, Step step, const absl::Status& failure, absl::Time at,
                     Generation generation = Generation(1));

  // Returns the coordinator's clock minus this host's, from the Heartbeat with the fastest answer.
  // The error is at most half of that round trip. 0 before the first answer.
  absl::Duration clock_offset();
  // Returns when this worker sent the newest Heartbeat that the coordinator has answered, as
  // SteadyNow; InfinitePast before the first answer. The coordinator has read all that was sent
  // before.
  absl::Time answered();

  // Tells the coordinator that this worker leaves, and waits for its confirmation: at most 45 s if
  // `finished` (all steps are done), because the coordinator may stand still or wait for its disk;
  // otherwise it is a loss, with `reason`, and the limit is 2 s. `ends_run`: the run must not
  // continue without this worker. Errors: the earlier end of the session, DeadlineExceeded, or
  // Cancelled if Leave was called before.
  absl::Status Leave(bool finished, absl::string_view reason, bool ends_run = false);

  // Ends the session at once: Join returns Cancelled, and on_abort is not called.
  void Cancel();

 private:
  using Stream = grpc::ClientReaderWriter<v1::WorkerMessage, v1::CoordinatorMessage>;

  Session(SessionOptions options, OnAbort on_abort, Listener listener,
          std::shared_ptr<grpc::Channel> channel);

  // Sends a first message and waits for the View.
  absl::StatusOr<View> Enter(const v1::WorkerMessage& message);
  void Read();
  void OnMessage(v1::CoordinatorMessage* received);
  void OnView(const v1::View& proto);
  void OnSealed(const v1::Sealed& sealed);
  void OnLayoutAgreed(const v1::LayoutAgreed& agreed);
  void OnAbortMessage(const v1::Abort& abort);
  void OnEcho(const v1::Echo& echo);
  void OnEnd(const grpc::Status& status);
  // Returns how the session ended, given the status of its stream.
  absl::Status EndStatus(const grpc::Status& status) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Notify(const absl::Status& status);
  void SendHeartbeats();
  void AddWork(v1::Heartbeat* heartbeat) const;
  void Write(v1::WorkerMessage message);
  void HalfClose();
  // Cancels the stream; the session then ends with `status`.
  void EndWith(const absl::Status& status);

  const SessionOptions options_;
  const OnAbort on_abort_;
  const Listener listener_;
  const std::unique_ptr<v1::Membership::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;  // set by Join, before the threads start
  OnLayout on_layout_;              // set likewise; empty for a worker
  LayoutId next_layout_;            // for the declaring thread
  uint64_t received_ = 0;           // messages; for the reading thread
  Generation newest_;               // of the views received; for the reading thread

  // Held while gRPC writes, so that messages go out one at a time.
  Mutex write_mutex_;
  bool half_closed_ ABSL_GUARDED_BY(write_mutex_) = true;  // or not open yet
  uint64_t written_ ABSL_GUARDED_BY(write_mutex_) = 0;     // messages

  Mutex mutex_;
  CondVar changed_;
  std::optional<View> view_ ABSL_GUARDED_BY(mutex_);
  LayoutId not_agreed_ ABSL_GUARDED_BY(mutex_);  // the first layout that is not agreed yet
  std::optional<absl::Status> aborted_ ABSL_GUARDED_BY(mutex_);    // status of Abort
  std::optional<absl::Status> local_end_ ABSL_GUARDED_BY(mutex_);  // why this side ended it
  // Set while no stream is open.
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_) =
      absl::FailedPreconditionError("the session has not joined the run");
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  bool notified_ ABSL_GUARDED_BY(mutex_) = false;
  double shortest_round_trip_ ABSL_GUARDED_BY(mutex_) = std::numeric_limits<double>::infinity();
  double clock_offset_ ABSL_GUARDED_BY(mutex_) = 0;  // seconds
  absl::Time answered_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();

  std::thread reader_;
  std::thread heartbeat_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_SESSION_SESSION_H_
