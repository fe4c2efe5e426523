#ifndef GRADWIRE_WORKER_SYNC_PSEUDO_GRADIENT_H_
#define GRADWIRE_WORKER_SYNC_PSEUDO_GRADIENT_H_

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

// The pseudo-gradients of a worker's ranks, and the step that makes their models one again
// (Douillard et al. 2023, algorithm 1):
//
//   anchor           θ                 the model after the last exchange: the same on all ranks
//   pseudo-gradient  d_r = θ − θ_r     of carried rank r; it is exchanged
//   mean             d = mean of all d_r
//   step             m ← μ·m + d,  θ ← θ − η·(d + μ·m)        (θ ← θ − η·d without momentum)
//
// Differences are sent, not models, so that 16-bit types round only the change. With η = 1 and μ =
// 0, θ becomes the mean of the models, except for rounding. Buffers always take that step.
//
// Bucket i is one of the reducer's gradient buckets, in the same order; one more bucket may hold
// the buffers. All are float32. The ranks' models take turns in the module (see
// Reducer::BeginForward): methods with a `rank`, the index of a carried one, read or write the
// module while it has that rank's model. Memory, in float32 of all buckets: ranks + 2, with
// momentum + 3. Not thread-safe; an exchange's threads may read pseudo-gradients and write means.
class PseudoGradient {
 public:
  // `tensors` of each bucket share memory with the module. Their current values are the anchor.
  // `buffers`: the last bucket holds buffers.
  PseudoGradient(std::vector<std::vector<torch::Tensor>> tensors, bool buffers, size_t ranks,
                 const OuterStep& outer);

  size_t bucket_count() const { return buckets_.size(); }
  const std::vector<torch::Tensor>& tensors(size_t bucket) const {
    return buckets_[bucket].tensors;
  }
  std::vector<BucketSpec> Specs() const;
  absl::Span<uint8_t> pseudo_gradient(size_t bucket, size_t rank);
  absl::Span<uint8_t> mean(size_t bucket);

  // Sets pseudo-gradient = anchor − module.
  void Measure(size_t bucket, size_t rank);
  // Moves the anchor when the bucket's mean has arrived.
  void Step(size_t bucket);
  // Sets module = anchor. Call it after Step of all buckets and before Measure.
  void Reset(size_t bucket);
  // The same for a rank that trained on since Measure; keeps its progress since then: module += new
  // anchor − module at Measure. Once, because it uses up the pseudo-gradient.
  void Correct(size_t bucket, size_t rank);

  // State of the next exchange besides the models: each bucket's anchor, and the state of the outer
  // optimizer (see SlicedOptimizer::State). Copies.
  struct State {
    std::vector<torch::Tensor> anchors;
    std::vector<std::vector<torch::Tensor>> momenta;
  };
  State Capture() const;
  // Restores the state of Capture, between two exchanges. Returns InvalidArgument if it does not
  // fit; the state is then undefined.
  absl::Status Restore(const State& state);

 private:
  struct OfBucket {
    std::vector<torch::Tensor> tensors;
    torch::Tensor anchor;                         // this and those below have one dimension
    std::vector<torch::Tensor> pseudo_gradients;  // by rank
    torch::Tensor mean;                           // after Step, the change of the anchor
    double lr;
    SlicedOptimizer outer;  // of the anchor
  };
  static OfBucket Make(std::vector<torch::Tensor> tensors, size_t ranks, const OuterStep& outer);
  absl::Status CheckState(const State& state) const;

  std::vector<OfBucket> buckets_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_SYNC_PSEUDO_GRADIENT_H_
