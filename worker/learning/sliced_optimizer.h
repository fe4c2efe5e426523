#ifndef GRADWIRE_WORKER_LEARNING_SLICED_OPTIMIZER_H_
#define GRADWIRE_WORKER_LEARNING_SLICED_OPTIMIZER_H_

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/learning/optimizer.h"
#include "worker/learning/update.h"

namespace gradwire {

// An optimizer of torch with the same bits and less memory traffic. torch makes several passes over
// each tensor, and each pass reads a large tensor from memory again. This class updates in one
// pass, if the kind has a kernel for that. Otherwise it passes slices of the parameters to torch,
// which stay in a core's cache from the first pass to the last. Not thread-safe.
class SlicedOptimizer {
 public:
  // `parameters`: float32, on the CPU, contiguous.
  SlicedOptimizer(absl::Span<const torch::Tensor> parameters, OptimizerKind kind);

  // Updates the parameters. `gradient` has the gradients of all parameters, one after the other.
  void Step(const torch::Tensor& gradient, double learning_rate);

  // Keeps parameters and State() before the next Step, which may be undone; in reused memory.
  void Save();
  // Restores parameters and state of the last Save. Call it once at most after a Save.
  void Undo();

  const OptimizerKind& kind() const { return kind_; }
  // Returns a copy of the state of the next Step besides parameters, gradient and learning rate, of
  // all parameters one after the other, in the kind's `dimensions`: the momentum of SGD; the step,
  // exp_avg and exp_avg_sq of Adam. Empty while there is none. Does not depend on the slices.
  std::vector<torch::Tensor> State() const;
  // Restores a result of State(). Returns InvalidArgument, and changes nothing, if it does not fit
  // the parameters.
  absl::Status SetState(const std::vector<torch::Tensor>& state);

 private:
  absl::Status CheckState(const std::vector<torch::Tensor>& state) const;

  const OptimizerKind kind_;
  int64_t elements_ = 0;  // of all parameters
  std::unique_ptr<Update> update_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_LEARNING_SLICED_OPTIMIZER_H_
