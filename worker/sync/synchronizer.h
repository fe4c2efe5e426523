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

// What a sync may be told besides its name.
struct SyncOptions : SyncSettings {
  int64_t interval = 0;             // steps from one exchange to the next, of a periodic one
  int64_t total_steps = INT64_MAX;  // of the run
  absl::Duration step_timeout = absl::Seconds(300);
  // Of a step of training, for a sync whose model is served.
  std::function<double(Step)> learning_rate = [](Step) { return 0.1; };
  // Buffers that are averaged where parameters are: float32, on the CPU, contiguous.
  std::vector<torch::Tensor> averaged_buffers = {};
};

// When a reducer's buckets are contributed: hooks that the trainer calls, all on its thread.
// In every step, for each rank that the worker carries, in their order:
//
//   forward ─► OnForwardDone ─► backward ────────────► OnBackwardDone
//                                 └─ OnBucketReady(0), (1), …
//
// and then NextBucket once for each bucket. Each bucket has to be contributed once for each
// rank, in an order of buckets that is the same on all workers. Whether NextBucket is
// called before the next step's forward pass begins, or from within it as its stages
// come to their parameters, says the sync's row in syncs.inc (see SyncTraits).
//
// Where ranks have models of their own (see ReducerOptions), nothing is contributed to the
// reducer and NextBucket is not called. Each rank's pass is followed by its own update, and the
// last one's by OnStepDone, in which the sync exchanges what it exchanges.
class Synchronizer {
 public:
  // `reducer` outlives this object.
  explicit Synchronizer(Reducer* reducer) : reducer_(reducer) {}
  // No transfer is under way, or it is cancelled and waited for.
  virtual ~Synchronizer() = default;
  Synchronizer(const Synchronizer&) = delete;
  Synchronizer& operator=(const Synchronizer&) = delete;

  // The buckets that ranks exchange, in float32, and with whom; see Reducer.
  virtual std::vector<BucketSpec> BucketSpecs() const { return reducer_->BucketSpecs(); }
  virtual void Attach(Exchange* exchange, LayoutId layout, std::vector<Rank> ranks) {
    reducer_->Attach(exchange, layout, std::move(ranks));
  }

  // Once, after Attach: what ranks need of each other before the first step. Errors as NextBucket.
  virtual absl::Status Start() { return absl::OkStatus(); }

  // The last forward pass of `rank` is through, so its buffers are what they are going to be.
  virtual void OnForwardDone(Rank /*rank*/) {}

  // The terms of `rank` for a gradient bucket are there. In the order of the buckets, from
  // inside backward. Left out for those that backward did not complete, because it
  // gave a parameter no gradient, and those behind them.
  virtual void OnBucketReady(size_t /*bucket*/, Rank /*rank*/) {}

  // All terms of `rank` are there.
  virtual void OnBackwardDone(Rank rank) = 0;

  // See Reducer::NextBucket.
  virtual absl::StatusOr<size_t> NextBucket() { return reducer_->NextBucket(); }

  // All carried ranks have made their updates of `step`. Steps follow each other from 0. Errors as
  // NextBucket.
  virtual absl::Status OnStepDone(Step /*step*/) { return absl::OkStatus(); }

  // What the exchange took since the last call, or in the step.
  virtual PhaseTimes TakeTimes() { return reducer_->times(); }

  // See Reducer::Abandon.
  virtual void Abandon(const absl::Status& reason) { reducer_->Abandon(reason); }

  // Between two steps: from here to EndEvaluation each rank's model (see Reducer::BeginForward) is
  // the one that an evaluation is of. Training goes on as if there had been none. Errors as
  // NextBucket; there is no EndEvaluation after one.
  virtual absl::Status BeginEvaluation() { return absl::OkStatus(); }
  virtual void EndEvaluation() {}

 protected:
  Reducer& reducer() { return *reducer_; }
  const Reducer& reducer() const { return *reducer_; }
  bool IsLast(Rank rank) const { return reducer_->ranks().back() == rank; }

 private:
  Reducer* const reducer_;
};

// Makes the sync called `name` (see syncs.inc), which has its interval in it; null for one that
// averages nothing. NotFound lists the names; InvalidArgument as IntervalOfSync. `reducer` outlives
// it.
absl::StatusOr<std::unique_ptr<Synchronizer>> MakeSynchronizer(absl::string_view name,
                                                               Reducer* reducer,
                                                               SyncOptions options = {});

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_SYNC_SYNCHRONIZER_H_
