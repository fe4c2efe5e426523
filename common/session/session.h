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
  // Asked every 0.1 s while Open waits; true ends it with Cancelled.
  std::function<bool()> cancelled = [] { return false; };
  Security security = {};
  // What heartbeats tell of the worker; asked on their thread. Empty: nothing.
  std::function<absl::optional<v1::Work>()> work = nullptr;
};

// Membership in a run: a worker's or an aggregator's end of Membership.Session.
//
//   Open ─► Join ─► View ─► DeclareLayout ─► ReportStep … ─► Leave(finished)
//                     │
//                     └─ on_abort: the run is over, or the coordinator lost
//
// Threads: one reads the stream, one sends heartbeats, so that a trainer that
// is busy for long is not taken for dead. All methods but Join and DeclareLayout may be
// called from any thread, also after the end (reports then go nowhere).
class Session {
 public:
  // Called at most once, on the reading thread, with no lock held, when a
  // session that got its View ends before Leave or Cancel; possibly before Join
  // has returned that View. It must not destroy the session. The status is
  //   Aborted      the run is over; the coordinator's reason
  //   Unavailable  the stream broke: "lost the coordinator …", or a message on it
  //   DataLoss     the coordinator got a message of this side that was broken
  //   Internal     the coordinator sent what makes no sense
  using OnAbort = std::function<void(const absl::Status&)>;
  // Called on the reading thread, with no lock held, possibly before Offer has returned the
  // View: all workers have declared this layout. `buckets` are in the type of the wire; `serving`
  // names no optimiser if the model is not served.
  using OnLayout = std::function<void(LayoutId, const std::vector<BucketSpec>& buckets,
                                      const v1::Serving& serving)>;
  // What a worker hears once it has its View; called on the reading thread, with no lock held,
  // possibly before Join has returned.
  struct Listener {
    std::function<void(Step)> on_sealed;    // see membership.proto
    std::function<void(View)> on_new_view;  // any but the first
    // Nothing goes on until on_new_view.
    std::function<void(const std::string& reason)> on_paused;
  };

  // Connects, see ConnectToCoordinator for waiting and errors. What `listener` leaves empty is of
  // no interest.
  static absl::StatusOr<std::unique_ptr<Session>> Open(SessionOptions options, OnAbort on_abort,
                                                       Listener listener = {});

  // Ends the stream if it is open: to the coordinator a loss, unless Leave came before.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Sends `hello`, with incarnation, protocol and version filled in, and waits for the View:
  // as long as the coordinator waits for workers. Call once. Errors:
  //   InvalidArgument, AlreadyExists, FailedPrecondition
  //                 the coordinator refused; see membership.proto
  //   Aborted       the run ended before it began (workers missing)
  //   Unavailable   the stream broke
  //   Cancelled     Cancel was called
  //   Unauthenticated  the coordinator asks for another token
  absl::StatusOr<View> Join(v1::Hello hello);

  // The same for a separate aggregator that serves at `address` ("host:port"). For
  // it, on_abort with OK says that all ranks have finished.
  absl::StatusOr<View> Offer(const std::string& address, OnLayout on_layout);

  // Declares what this worker will exchange, buckets in the type of the wire, and waits until
  // all workers have declared the same. The n-th call, counted from 0, gives id n, whatever
  // `layout` says. After Join, from one thread at a time. Errors: InvalidArgument names the
  // first tensor or bucket that differs from another worker's; those of AwaitLayout; else as Join.
  absl::StatusOr<LayoutId> DeclareLayout(v1::Layout layout,
                                         absl::Duration timeout = absl::Minutes(5));
  // Waits (on) until all workers have declared the layout. DeadlineExceeded after `timeout`.
  absl::StatusOr<LayoutId> AwaitLayout(LayoutId layout, absl::Duration timeout);

  // For the coordinator's Status, and for the step it names should `done.rank` be lost.
  void ReportStep(const v1::StepDone& done);
  // The means of a step are here, or all steps are done.
  void ReportReady(const v1::Ready& ready);
  // The worker `suspect` does not answer in `step`, in the view of this generation, since `at`, of
  // SteadyNow; with an Aborted `failure` it has ended a call, perhaps for another one's sake, and
  // with DeadlineExceeded its part of the step did not come in time (kNobody: somebody's). If
  // the run is over for that, or for the true cause, on_abort comes within about a second.
  static constexpr Incarnation kNobody{0};
  void ReportSuspect(Incarnation suspect, Step step, const absl::Status& failure, absl::Time at,
                     Generation generation = Generation(1));

  // The coordinator's clock minus this host's, from the Heartbeat whose answer came
  // quickest; off by at most half of the time that took. 0 before the first answer.
  absl::Duration clock_offset();

  // Says that this worker goes, and waits at most 2 s for the coordinator's
  // confirmation. `finished`: all steps are done; else it is a loss, with
  // `reason`. Errors: how the session ended before, DeadlineExceeded, or
  // Cancelled if Leave was called before.
  // `ends_run`: nobody is to go on without this worker.
  absl::Status Leave(bool finished, absl::string_view reason, bool ends_run = false);

  // Ends the session at once: Join returns Cancelled, on_abort is not called.
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
  void OnLayoutAgreed(const v1::LayoutAgreed& agreed);
  void OnAbortMessage(const v1::Abort& abort);
  void OnEcho(const v1::Echo& echo);
  void OnEnd(const grpc::Status& status);
  // How the session ended, given what the stream ended with.
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
  OnLayout on_layout_;              // likewise; empty for a worker
  LayoutId next_layout_;            // of the thread that declares
  uint64_t received_ = 0;           // messages; of the thread that reads

  // Held while gRPC writes, so that messages go out one at a time.
  Mutex write_mutex_;
  bool half_closed_ ABSL_GUARDED_BY(write_mutex_) = true;  // or not open yet
  uint64_t written_ ABSL_GUARDED_BY(write_mutex_) = 0;     // messages

  Mutex mutex_;
  CondVar changed_;
  std::optional<View> view_ ABSL_GUARDED_BY(mutex_);
  LayoutId not_agreed_ ABSL_GUARDED_BY(mutex_);  // the first layout that is not agreed yet
  std::optional<absl::Status> aborted_ ABSL_GUARDED_BY(mutex_);    // what Abort said
  std::optional<absl::Status> local_end_ ABSL_GUARDED_BY(mutex_);  // why this side ended it
  // Set when there is no stream: not yet, or not any more.
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_) =
      absl::FailedPreconditionError("the session has not joined the run");
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  bool notified_ ABSL_GUARDED_BY(mutex_) = false;
  double shortest_round_trip_ ABSL_GUARDED_BY(mutex_) = std::numeric_limits<double>::infinity();
  double clock_offset_ ABSL_GUARDED_BY(mutex_) = 0;  // seconds

  std::thread reader_;
  std::thread heartbeat_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_SESSION_SESSION_H_
