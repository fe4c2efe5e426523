#ifndef GRADWIRE_WORKER_DDP_BUCKET_TRACKER_H_
#define GRADWIRE_WORKER_DDP_BUCKET_TRACKER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/telemetry/phases.h"
#include "worker/backends/exchange.h"

namespace gradwire {

// The buckets of one step at a time on their way through an Exchange. A bucket is
//
//   held ── Contribute ──► under way ── the exchange's done ──► there ── Next ──► taken
//            of the first rank
//
// One thread calls; the exchange's threads end transfers.
class BucketTracker {
 public:
  // No bucket may be under way. `exchange` is used until the next Attach; may be null if nothing is
  // contributed.
  void Attach(Exchange* exchange, LayoutId layout, size_t buckets, size_t ranks);

  // Begins a step: all buckets are held. None of the previous step may be under way. The exchange
  // must finish within `timeout` from the first Contribute.
  void Begin(Step step, absl::Duration timeout);

  // Whether carried rank `rank` has contributed a bucket in this step.
  bool Contributed(size_t bucket, size_t rank) const { return handed_in_[bucket][rank]; }
  // Contributes the `terms` of carried rank `index`, which is `rank`. The first rank's call sets
  // the place of the result. With empty terms only the result is expected.
  void Contribute(size_t bucket, size_t index, Rank rank, absl::Span<const uint8_t> terms,
                  absl::Span<uint8_t> result);

  // Takes the highest bucket whose result is there; waits if there is none.
  //   FailedPrecondition  none is under way either
  //   DeadlineExceeded    the timeout passed, and the exchange is silent because it is stuck in a
  //                       write
  //   or the first error of a transfer of the step, even if other buckets are there
  absl::StatusOr<size_t> Next();

  // Waits until no transfer is under way; cancels the exchange with `reason` if one is.
  void Abandon(const absl::Status& reason);

  // Returns the times of the step until now.
  PhaseTimes times() const;

 private:
  enum class State { kHeld, kUnderWay, kThere, kTaken };

  void Expect(const BucketKey& key, absl::Span<uint8_t> result);
  void Done(size_t bucket, const absl::Status& status);
  void Wait() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool CanTell() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<size_t> Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Only for the calling thread:
  Exchange* exchange_ = nullptr;
  LayoutId layout_;
  std::vector<std::vector<bool>> handed_in_;  // by bucket and carried rank
  Step step_;
  absl::Duration timeout_;
  absl::Time deadline_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<State> states_ ABSL_GUARDED_BY(mutex_);  // by bucket
  size_t under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time busy_since_ ABSL_GUARDED_BY(mutex_);  // if under_way_ > 0
  absl::Status status_ ABSL_GUARDED_BY(mutex_);    // the first error
  PhaseTimes times_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DDP_BUCKET_TRACKER_H_
