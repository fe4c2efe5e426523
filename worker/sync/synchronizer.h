#ifndef GRADWIRE_WORKER_SYNC_SYNCHRONIZER_H_
#define GRADWIRE_WORKER_SYNC_SYNCHRONIZER_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "worker/backends/backend.h"

namespace gradwire {

// What is exchanged in a step. Bucket i < gradients.size() is gradients[i];
// the bucket behind them, if `buffers` is not empty, holds the buffers.
struct StepBuckets {
  struct Gradient {
    absl::Span<const float> terms;  // this rank's
    absl::Span<float> mean;         // where the average goes
  };
  std::vector<Gradient> gradients;
  absl::Span<uint8_t> buffers;  // rank 0's go to all, in place

  size_t size() const { return gradients.size() + (buffers.empty() ? 0 : 1); }
};

// How long a step's exchange took; see PhaseTimes.
struct ExchangeTimes {
  absl::Duration communication;
  absl::Duration exposed_communication;
};

// When gradients are averaged: hooks that the trainer calls, all on its thread.
// In every step:
//
//   forward ─► OnForwardDone ─► backward ────────────► OnBackwardDone
//                                 └─ OnBucketReady(0), (1), …
//           ─► NextBucket, once for each bucket; the trainer uses it at once
//
// If updates_late(), NextBucket is called from within the next step's forward
// pass: as often as it needs for the parameters that it comes to.
class Synchronizer {
 public:
  virtual ~Synchronizer() = default;

  // Whether the optimiser is to read the mean; false: this rank's own terms,
  // and none of the hooks below is called.
  virtual bool averages() const = 0;

  // Whether parameters may be updated as late as the next forward pass needs
  // them; false: all before the step ends.
  virtual bool updates_late() const = 0;

  // The step's last forward pass is through, so the buffers are what they are
  // going to be. `buckets` stay valid until their transfers have ended; all of
  // the step before have. The exchange may take `timeout` from the first transfer on.
  virtual void OnForwardDone(Step step, const StepBuckets& buckets, absl::Duration timeout) = 0;

  // The terms of gradient bucket `bucket` are there. In the order of the
  // buckets, from inside backward. Left out for those that backward did not
  // complete, because it gave a parameter no gradient, and those behind them.
  virtual void OnBucketReady(size_t bucket) = 0;

  // All terms are there.
  virtual void OnBackwardDone() = 0;

  // A bucket whose result is there and that was not given yet; the highest, if
  // there are several, for its parameters are wanted first. Waits if there is
  // none. Errors: those of Backend::Done; other transfers may be under way then.
  virtual absl::StatusOr<size_t> NextBucket() = 0;

  // The step will not be completed. On return no transfer uses the buckets any
  // more; if one did, the back end is cancelled with `reason` (not OK).
  virtual void Abandon(const absl::Status& reason) = 0;

  // Of the step of the last OnForwardDone.
  virtual ExchangeTimes times() const = 0;
};

// Makes the sync called `name` (see syncs.inc); NotFound lists the names.
// `backend` outlives it; null for a sync that needs none.
absl::StatusOr<std::unique_ptr<Synchronizer>> MakeSynchronizer(absl::string_view name,
                                                               Backend* backend);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_SYNC_SYNCHRONIZER_H_
