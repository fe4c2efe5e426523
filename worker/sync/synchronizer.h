#ifndef GRADWIRE_WORKER_SYNC_SYNCHRONIZER_H_
#define GRADWIRE_WORKER_SYNC_SYNCHRONIZER_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/ids.h"
#include "worker/ddp/reducer.h"

namespace gradwire {

// When a reducer's buckets are handed in: hooks that the trainer calls, all on its thread.
// In every step, for each rank that the worker carries, in their order:
//
//   forward ─► OnForwardDone ─► backward ────────────► OnBackwardDone
//                                 └─ OnBucketReady(0), (1), …
//
// and then NextBucket once for each bucket. Each bucket has to be handed in once for each
// rank, in an order of buckets that is the same on all workers. Whether NextBucket is
// called before the next step's forward pass begins, or from within it as its stages
// come to their parameters, says the sync's row in syncs.inc (see SyncTraits).
class Synchronizer {
 public:
  // `reducer` outlives this object.
  explicit Synchronizer(Reducer* reducer) : reducer_(reducer) {}
  virtual ~Synchronizer() = default;
  Synchronizer(const Synchronizer&) = delete;
  Synchronizer& operator=(const Synchronizer&) = delete;

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

 protected:
  Reducer& reducer() { return *reducer_; }
  bool IsLast(Rank rank) const { return reducer_->ranks().back() == rank; }

 private:
  Reducer* const reducer_;
};

// Makes the sync called `name` (see syncs.inc); null for one that averages nothing.
// NotFound lists the names. `reducer` outlives it.
absl::StatusOr<std::unique_ptr<Synchronizer>> MakeSynchronizer(absl::string_view name,
                                                               Reducer* reducer);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_SYNC_SYNCHRONIZER_H_
