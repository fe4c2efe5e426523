#ifndef GRADWIRE_WORKER_SYNC_SYNCHRONIZER_H_
#define GRADWIRE_WORKER_SYNC_SYNCHRONIZER_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/ids.h"
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
};

// How long a step's exchange took; see PhaseTimes.
struct ExchangeTimes {
  absl::Duration communication;
  absl::Duration exposed_communication;
};

// When gradients are averaged: hooks that the trainer calls on its thread, in
// this order, in every step.
class Synchronizer {
 public:
  virtual ~Synchronizer() = default;

  // Whether the optimiser is to read the mean; false: this rank's own terms.
  virtual bool averages() const = 0;

  // Backward is through. On return OK all means and buffers are there. Errors:
  // those of Backend::Done; no transfer uses the buckets any more.
  virtual absl::Status BeforeOptimizer(Step step, const StepBuckets& buckets,
                                       absl::Time deadline) = 0;

  // Of the last BeforeOptimizer.
  virtual ExchangeTimes times() const = 0;
};

// Makes the sync called `name` (see syncs.inc); NotFound lists the names.
// `backend` outlives it; null for a sync that needs none.
absl::StatusOr<std::unique_ptr<Synchronizer>> MakeSynchronizer(absl::string_view name,
                                                               Backend* backend);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_SYNC_SYNCHRONIZER_H_
