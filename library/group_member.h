#ifndef GRADWIRE_LIBRARY_GROUP_MEMBER_H_
#define GRADWIRE_LIBRARY_GROUP_MEMBER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/clock.h"
#include "common/base/environment.h"
#include "common/base/mutex.h"
#include "common/state_transfer/state_service.h"
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
#include "worker/run/state_keeper.h"
#include "worker/state/held_state.h"
#include "worker/state/state_owner.h"

namespace gradwire {

// A process's part in a run: all of a ProcessGroup except the collectives.
//
//   HostedCoordinator (at rank 0, if no other program serves)
//   RunMember ──► Exchange ◄── collectives, reducers
//   MetricsServer ◄── WorkerMetrics ◄── Report of each step ──► coordinator, trace
//   StateOwner ──► StateKeeper ──► HeldState ◄── the coordinator, which keeps checkpoints
//
// One thread calls. All calls after the first failure return it.
class GroupMember {
 public:
  // Joins the run and waits for all its ranks. Errors: see init_process_group.
  static absl::StatusOr<std::unique_ptr<GroupMember>> Join(const GroupSettings& settings,
                                                           const Environment& environment);
  // Leaves with a failure unless Leave was called.
  ~GroupMember();
  GroupMember(const GroupMember&) = delete;
  GroupMember& operator=(const GroupMember&) = delete;

  const GroupSettings& settings() const { return settings_; }
  Rank rank() const { return rank_; }
  int world_size() const { return view_.world_size; }
  const View& view() const { return view_; }
  // Returns the hosted coordinator's page; empty if there is none.
  std::string page() const;

  // Returns OK, how the run failed, or FailedPrecondition after Leave.
  absl::Status state();

  // Declares a layout; all ranks do so in the same order. `buckets` are in float32. Errors:
  // InvalidArgument and Aborted name the first difference; else those of Session.
  absl::StatusOr<LayoutId> Declare(const std::string& name, const Layout& tensors,
                                   const std::vector<BucketSpec>& buckets);
  // Use it only while state() is OK or to wait for a transfer.
  Exchange& exchange() { return member_->exchange(); }
  RunMember& member() { return *member_; }
  // Returns the deadline of a step or a collective that begins now.
  absl::Time StepDeadline() const {
    return closing_ ? absl::InfiniteFuture() : SteadyNow() + settings_.step_timeout;
  }
  // The program closes the group: from now on this rank waits for the others without a limit,
  // because they may continue for any time. If one is lost, the run ends.
  void BeginClosing() { closing_ = true; }

  // Fails the run with `cause` (not OK) in the current step: tells the other ranks, and ends all
  // transfers. `of_all`: no loss of another rank has caused it. Returns the failure to report: the
  // coordinator's, if it arrives.
  absl::Status Fail(const absl::Status& cause, bool of_all = false);

  // Steps count all averages of the run.
  Step step() const { return step_; }
  // Reports the step, which ended at `end`, as done. Sets step, rank, bytes and time. A loss of NaN
  // is unknown.
  void Report(StepRecord record, absl::Time end);
  // Returns the end of the last step, of any model; the infinite past before the first one.
  absl::Time last_end() const { return last_end_; }
  // Returns the listener of the steps' phases; empty without a trace.
  OnSpan span_listener();

  // Keeps the state of `owner`, which must outlive this object or the call of Forget, and restores
  // that of the checkpoint from which the run continues. Returns the first step. `optimizer`: for
  // exports. Errors: those of StateKeeper::Resume.
  absl::StatusOr<Step> Keep(StateOwner* owner, std::function<v1::OptimizerConfig(Step)> optimizer);
  void Forget();
  bool keeps_state() const { return keeper_ != nullptr; }
  // The program trains without Keep: says once that there will be no checkpoints, if the run has a
  // run directory, and declines copies that the coordinator asks for.
  void KeepsNoState();
  // Between two steps of the owner, before `next`: copies its state if that is due.
  void BeforeStep(Step next) { keeper_->BeforeStep(next, view_); }
  // The owner has no step after the one before `last`: waits until an earlier copy is written,
  // copies its state, and waits until that is written. Returns how the run failed, if it did.
  absl::Status KeepLast(Step last);
  // Returns the steps of the checkpoints that were written since the last call, in order.
  std::vector<Step> TakeWritten();

  // Leaves the run; waits until the other ranks are done. Returns how the run failed, if it did, or
  // that the trace cannot be written. Call it once.
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
  // Sets the bytes sent and received since the last step, and their compression.
  void CountTransfers(StepRecord* record);
  absl::Status CloseTrace();
  void OnSave(Step step);
  void OnSaved(const v1::Saved& saved);
  v1::StatusReply GetStatus();

  GroupSettings settings_;
  const Environment environment_;
  std::unique_ptr<HostedCoordinator> hosted_;  // null if another program serves
  WorkerMetrics metrics_;
  std::unique_ptr<TraceLog> trace_log_;  // null without a trace
  View view_;
  Rank rank_{0};
  Step step_;
  absl::Time last_end_ = absl::InfinitePast();
  bool closing_ = false;
  TransferTotals counted_;  // up to the last step
  CompressionMeter compression_;

  Mutex mutex_;
  const RunMember* shown_member_ ABSL_GUARDED_BY(mutex_) = nullptr;  // set once it has joined
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  v1::RankStatus rank_status_ ABSL_GUARDED_BY(mutex_);
  StateKeeper* shown_keeper_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::vector<Step> asked_early_ ABSL_GUARDED_BY(mutex_);  // for copies, before it is set
  bool keeps_none_ ABSL_GUARDED_BY(mutex_) = false;        // since KeepsNoState
  std::vector<Step> written_ ABSL_GUARDED_BY(mutex_);      // since the last TakeWritten

  // The copy of the state that the coordinator fetches, and the service for it.
  HeldState held_state_;
  StateService state_service_;

  // The members below have threads that use the members above.
  std::unique_ptr<MetricsServer> metrics_server_;
  std::unique_ptr<RunMember> member_;
  std::unique_ptr<StateKeeper> keeper_;  // null: no state is kept
};

}  // namespace gradwire

#endif  // GRADWIRE_LIBRARY_GROUP_MEMBER_H_
