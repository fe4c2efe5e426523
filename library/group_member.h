#ifndef GRADWIRE_LIBRARY_GROUP_MEMBER_H_
#define GRADWIRE_LIBRARY_GROUP_MEMBER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/environment.h"
#include "common/base/mutex.h"
#include "common/telemetry/figure_series.h"
#include "common/telemetry/metrics.h"
#include "common/telemetry/metrics_server.h"
#include "common/telemetry/step_record.h"
#include "common/telemetry/trace_log.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"
#include "coordinator/run/hosted_coordinator.h"
#include "library/group_settings.h"
#include "worker/member/member.h"

namespace gradwire {

// A process's part in a run: everything behind a ProcessGroup but the collectives.
//
//   HostedCoordinator (of rank 0, if nobody else serves)
//   RunMember ──► Exchange ◄── collectives, reducers
//   MetricsServer ◄── WorkerMetrics ◄── Report of each step ──► coordinator, trace
//
// One thread calls. The first failure is kept: it is what all later calls return.
class GroupMember {
 public:
  // Joins the run and waits until all its ranks are there. Errors: see init_process_group.
  static absl::StatusOr<std::unique_ptr<GroupMember>> Join(const GroupSettings& settings,
                                                           const Environment& environment);
  // Leaves with a failure unless Leave was called.
  ~GroupMember();
  GroupMember(const GroupMember&) = delete;
  GroupMember& operator=(const GroupMember&) = delete;

  const GroupSettings& settings() const { return settings_; }
  Rank rank() const { return rank_; }
  int world_size() const { return view_.world_size; }
  // Of the hosted coordinator; empty if there is none.
  std::string page() const;

  // OK, or how the run failed, or FailedPrecondition after Leave.
  absl::Status state();

  // Makes the same layout known to all ranks, which call this in the same order; `buckets` in
  // float32. Errors: InvalidArgument and Aborted name the first difference; else as Session.
  absl::StatusOr<LayoutId> Declare(const std::string& name, const Layout& tensors,
                                   const std::vector<BucketSpec>& buckets);
  // Only while state() is OK or a transfer is to be waited for.
  Exchange& exchange() { return member_->exchange(); }
  RunMember& member() { return *member_; }
  absl::Time StepDeadline() const { return SteadyNow() + settings_.step_timeout; }

  // The run fails with `cause` (not OK) in the step that is going on. The others are told, and
  // all transfers end. Returns the failure to be told: the coordinator's word, if it comes.
  absl::Status Fail(const absl::Status& cause);

  // Steps are counted over all that is averaged in the run.
  Step step() const { return step_; }
  // The step is done. Step, rank, bytes and time are set here. A loss of NaN: not known.
  void Report(StepRecord record);
  // Hears of the phases of steps; empty without a trace.
  OnSpan span_listener();

  // Done; waits until the others are. Returns how the run failed, if it did, or that the
  // trace cannot be written. To be called once.
  absl::Status Leave();

 private:
  GroupMember(const GroupSettings& settings, const Environment& environment);
  absl::Status Start();
  absl::Status Host();
  absl::Status ServeMetrics();
  MemberOptions OptionsOfMember();
  absl::Status Join();
  v1::Hello MakeHello() const;
  absl::Status OpenTrace();
  // Sets what was sent and received since the last step, and how the exchange compressed it.
  void CountTransfers(StepRecord* record);
  absl::Status CloseTrace();
  v1::StatusReply GetStatus();

  GroupSettings settings_;
  const Environment environment_;
  std::unique_ptr<HostedCoordinator> hosted_;  // null where another one serves
  WorkerMetrics metrics_;
  std::unique_ptr<TraceLog> trace_log_;  // null without a trace
  View view_;
  Rank rank_{0};
  Step step_;
  TransferTotals counted_;  // up to the last step
  CompressionMeter compression_;

  Mutex mutex_;
  const RunMember* shown_member_ ABSL_GUARDED_BY(mutex_) = nullptr;  // once it has joined
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  v1::RankStatus rank_status_ ABSL_GUARDED_BY(mutex_);

  // From here on, what has threads that use the above.
  std::unique_ptr<MetricsServer> metrics_server_;
  std::unique_ptr<RunMember> member_;
};

}  // namespace gradwire

#endif  // GRADWIRE_LIBRARY_GROUP_MEMBER_H_
