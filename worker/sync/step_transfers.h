#ifndef GRADWIRE_WORKER_SYNC_STEP_TRANSFERS_H_
#define GRADWIRE_WORKER_SYNC_STEP_TRANSFERS_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "worker/backends/backend.h"
#include "worker/sync/synchronizer.h"

namespace gradwire {

// The transfers of one step after the other. A bucket of a step is
//
//   held ── HandIn ──► under way ── the back end's done ──► there ── Next ──► taken
//
// One thread calls; the back end's threads end transfers.
class StepTransfers {
 public:
  // `backend` outlives this object.
  explicit StepTransfers(Backend* backend) : backend_(backend) {}

  // All buckets are held. No transfer of the step before is under way. The
  // step's transfers may take `timeout` from the first HandIn on.
  void Begin(Step step, const StepBuckets& buckets, absl::Duration timeout);

  // Gives a held bucket to the back end; buckets.gradients.size() is that of the buffers.
  void HandIn(size_t bucket);
  // Gives it all that are still held, in order.
  void HandInRest();

  // Takes the highest bucket that is there; waits if there is none.
  //   FailedPrecondition  none is under way either
  //   DeadlineExceeded    the timeout passed and the back end said nothing, for
  //                       it is stuck in a write
  //   or the first error of a transfer of the step, whatever else is there
  absl::StatusOr<size_t> Next();

  // Waits until no transfer is under way; cancels the back end with `reason` if
  // one is.
  void Abandon(const absl::Status& reason);

  // Of the step.
  ExchangeTimes times() const;

 private:
  enum class State { kHeld, kUnderWay, kThere, kTaken };

  void Done(size_t bucket, const absl::Status& status);
  void Wait() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool CanTell() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<size_t> Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Backend* const backend_;
  // Of the calling thread:
  Step step_;
  StepBuckets buckets_;
  absl::Duration timeout_;
  absl::Time deadline_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<State> states_ ABSL_GUARDED_BY(mutex_);  // by bucket
  size_t under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time busy_since_ ABSL_GUARDED_BY(mutex_);  // if under_way_ > 0
  absl::Status status_ ABSL_GUARDED_BY(mutex_);    // the first error
  ExchangeTimes times_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_SYNC_STEP_TRANSFERS_H_
