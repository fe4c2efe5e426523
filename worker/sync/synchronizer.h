#ifndef GRADWIRE_WORKER_SYNC_SYNCHRONIZER_H_
#define GRADWIRE_WORKER_SYNC_SYNCHRONIZER_H_

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/telemetry/phases.h"
#include "worker/ddp/reducer.h"
#include "worker/options/sync_choice.h"

namespace gradwire {

class PseudoGradient;

// Options of a sync besides its name.
struct SyncOptions : SyncSettings {
  int64_t interval = 0;             // of a periodic sync: steps between two exchanges
  int64_t total_steps = INT64_MAX;  // of the run
  absl::Duration step_timeout = absl::Seconds(300);
  // Returns the learning rate of a training step. Only syncs with a parameter server use it.
  std::function<double(Step)> learning_rate = [](Step) { return 0.1; };
  // Buffers that are averaged with the parameters: float32, on the CPU, contiguous.
  std::vector<torch::Tensor> averaged_buffers = {};
};

// Decides when the reducer's buckets are contributed, through hooks that the trainer calls, all on
// its thread. In every step, for each carried rank in order:
//
//   forward ─► OnForwardDone ─► backward ────────────► OnBackwardDone
//                                 └─ OnBucketReady(0), (1), …
//
// and then NextBucket once for each bucket. Each bucket must be contributed once for each rank,
// with the same order of buckets on all workers. The sync's row in syncs.inc (see SyncTraits) says
// whether NextBucket is called before the next step's forward pass, or within it, when a stage
// needs its parameters.
//
// If ranks have their own models (see ReducerOptions), nothing is contributed to the reducer and
// NextBucket is not called. Each rank's pass is followed by its own update, and the last one's by
// OnStepDone, in which the sync makes its exchange.
class Synchronizer {
 public:
  // `reducer` must outlive this object.
  explicit Synchronizer(Reducer* reducer) : reducer_(reducer) {}
  // No transfer is under way, or it is cancelled and waited for.
  virtual ~Synchronizer() = default;
  Synchronizer(const Synchronizer&) = delete;
  Synchronizer& operator=(const Synchronizer&) = delete;

  // The buckets that ranks exchange, in float32, and the exchange to use; see Reducer.
  virtual std::vector<BucketSpec> BucketSpecs() const { return reducer_->BucketSpecs(); }
  virtual void Attach(Exchange* exchange, LayoutId layout, std::vector<Rank> ranks) {
    reducer_->Attach(exchange, layout, std::move(ranks));
  }

  // Exchanges what ranks need before the first step. Once, after Attach. Errors: those of
  // NextBucket.
  virtual absl::Status Start() { return absl::OkStatus(); }

  // The last forward pass of `rank` is done, so its buffers are final.
  virtual void OnForwardDone(Rank /*rank*/) {}

  // The terms of `rank` for a gradient bucket are complete. Called in the order of the buckets,
  // within backward. Not called for buckets that backward did not complete, because a parameter got
  // no gradient, nor for the buckets after them.
  virtual void OnBucketReady(size_t /*bucket*/, Rank /*rank*/) {}

  // All terms of `rank` are complete.
  virtual void OnBackwardDone(Rank rank) = 0;

  // See Reducer::NextBucket.
  virtual absl::StatusOr<size_t> NextBucket() { return reducer_->NextBucket(); }

  // All carried ranks have made their updates of `step`. Steps count from 0. Errors: those of
  // NextBucket.
  virtual absl::Status OnStepDone(Step /*step*/) { return absl::OkStatus(); }

  // Returns the exchange's times since the last call, or in the step.
  virtual PhaseTimes TakeTimes() { return reducer_->times(); }

  // Before Attach: the run begins with step `first`.
  virtual void BeginAt(Step /*first*/) {}
  // Between two steps: whether the state may be copied for a checkpoint now. A sync that exchanges
  // models says so only at the end of a round.
  virtual bool IsAtBorder() const { return true; }
  // Returns the outer step of a sync that exchanges models, after Attach; else null.
  virtual PseudoGradient* outer() { return nullptr; }

  // See Reducer::Abandon.
  virtual void Abandon(const absl::Status& reason) { reducer_->Abandon(reason); }

  // Between two steps: until EndEvaluation each rank's model (see Reducer::BeginForward) is the one
  // to evaluate. Training continues as if there had been no evaluation. Errors: those of
  // NextBucket; do not call EndEvaluation after one.
  virtual absl::Status BeginEvaluation() { return absl::OkStatus(); }
  virtual void EndEvaluation() {}

 protected:
  Reducer& reducer() { return *reducer_; }
  const Reducer& reducer() const { return *reducer_; }
  bool IsLast(Rank rank) const { return reducer_->ranks().back() == rank; }

 private:
  Reducer* const reducer_;
};

// Makes the sync called `name` (see syncs.inc), which includes its interval; null for one that
// averages nothing. NotFound lists the names; InvalidArgument as in IntervalOfSync. `reducer` must
// outlive it.
absl::StatusOr<std::unique_ptr<Synchronizer>> MakeSynchronizer(absl::string_view name,
                                                               Reducer* reducer,
                                                               SyncOptions options = {});

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_SYNC_SYNCHRONIZER_H_
