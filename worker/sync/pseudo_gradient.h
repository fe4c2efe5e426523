#ifndef GRADWIRE_WORKER_SYNC_MODEL_DRIFT_H_
#define GRADWIRE_WORKER_SYNC_MODEL_DRIFT_H_

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/wire/layout.h"
#include "worker/learning/sliced_optimizer.h"
#include "worker/options/sync_choice.h"

namespace gradwire {

// How far the models of a worker's ranks have gone since all ranks had one, and the step that makes
// them one again (Douillard et al. 2023, algorithm 1):
//
//   anchor  θ                    the model after the last exchange: the same on all ranks
//   pseudo_gradient   d_r = θ − θ_r        of carried rank r; what is exchanged
//   mean    d = mean of all d_r
//   step    m ← μ·m + d,  θ ← θ − η·(d + μ·m)        (θ ← θ − η·d without momentum)
//
// Differences travel and not models, so that half types round what changed and not what is. With
// η = 1 and μ = 0, θ becomes the models' mean, but for rounding. Buffers always take that step.
//
// Bucket i is one of the reducer's gradient buckets, in the same order; the one behind them, if
// there is one, holds the buffers. All are float32. The ranks' models take turns with the module
// (see Reducer::BeginForward): methods that say `rank`, the number of a carried one, read or write
// the module, which has that rank's model. Memory, in float32 of all buckets: ranks + 2, with
// momentum + 3. Not thread-safe; an exchange's threads may read pseudo_gradients and write means.
class PseudoGradient {
 public:
  // `tensors` of each bucket share memory with the module. The anchor is what they are now.
  // `buffers`: the last bucket is of buffers.
  PseudoGradient(std::vector<std::vector<torch::Tensor>> tensors, bool buffers, size_t ranks,
                 const OuterStep& outer);

  size_t bucket_count() const { return buckets_.size(); }
  std::vector<BucketSpec> Specs() const;
  absl::Span<uint8_t> pseudo_gradient(size_t bucket, size_t rank);
  absl::Span<uint8_t> mean(size_t bucket);

  // pseudo_gradient = anchor − module.
  void Measure(size_t bucket, size_t rank);
  // The bucket's mean is there: moves the anchor.
  void Step(size_t bucket);
  // After Step of all buckets and before Measure: module = anchor.
  void Reset(size_t bucket);
  // Likewise, of a rank that went on training since Measure: what it did since stays,
  // module += new anchor − what it was at Measure. Once, for the pseudo_gradient is used up.
  void Correct(size_t bucket, size_t rank);

  // What the next exchange depends on besides the models: of each bucket the anchor, and behind
  // them what the outer optimiser keeps (see SlicedOptimizer::State). Copies.
  struct State {
    std::vector<torch::Tensor> anchors;
    std::vector<std::vector<torch::Tensor>> momenta;
  };
  State Capture() const;
  // Makes it what Capture gave; between two exchanges. InvalidArgument if it does not fit; it may
  // hold anything then.
  absl::Status Restore(const State& state);

 private:
  struct OfBucket {
    std::vector<torch::Tensor> tensors;
    torch::Tensor anchor;                         // this and those below: one dimension
    std::vector<torch::Tensor> pseudo_gradients;  // by rank
    torch::Tensor mean;                           // after Step what it moved the anchor by
    double lr;
    SlicedOptimizer outer;  // of the anchor
  };
  static OfBucket Make(std::vector<torch::Tensor> tensors, size_t ranks, const OuterStep& outer);
  absl::Status CheckState(const State& state) const;

  std::vector<OfBucket> buckets_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_SYNC_MODEL_DRIFT_H_
