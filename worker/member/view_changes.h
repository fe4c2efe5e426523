#ifndef GRADWIRE_WORKER_MEMBER_VIEW_CHANGES_H_
#define GRADWIRE_WORKER_MEMBER_VIEW_CHANGES_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/wire/view.h"

namespace gradwire {

// Whether the loss of another worker may have caused `status`, with which training ended: a
// transfer with it broke, was ended by it or by a worker that learned of the loss first, or did not
// end in time. Not for a worker that was told to leave.
bool MayBeALoss(const absl::Status& status);

// The coordinator's news in a run that recovers, for a trainer that asks: which steps are sealed,
// and whether there is a newer view (see membership.proto). Both come in one stream, so a step that
// was sealed before the newer view is known to be sealed. Thread-safe.
class ViewChanges {
 public:
  // News of the coordinator, in order.
  void OnSealed(Step step);
  void OnNewView(View view);
  // A newer view, or an end, will follow after a while.
  void OnPaused();
  // Ends all waits with `reason`, which is not OK. The first reason counts.
  void End(const absl::Status& reason);
  // Returns OK, or that reason.
  absl::Status ended() const;
  // Waits until `deadline` for the end.
  absl::Status AwaitEnd(absl::Time deadline);

  // Waits until `step` is sealed. Returns Aborted if a newer view or a pause came before, or the
  // reason of End; nothing if this is not known by `deadline`.
  absl::optional<absl::Status> AwaitSealed(Step step, absl::Time deadline);
  // The same without waiting.
  absl::optional<absl::Status> WhetherSealed(Step step) const;
  // Returns OK, or Aborted if the run is paused or a newer view was not taken.
  absl::Status Unchanged() const;
  // Waits for a newer view, and takes the latest. Returns nothing after End, or if none has come by
  // `deadline`; in a pause it waits on.
  absl::optional<View> AwaitView(absl::Time deadline);

 private:
  absl::optional<absl::Status> Verdict(Step step) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  Step first_open_ ABSL_GUARDED_BY(mutex_);  // all before it are sealed
  absl::optional<View> view_ ABSL_GUARDED_BY(mutex_);
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_MEMBER_VIEW_CHANGES_H_
