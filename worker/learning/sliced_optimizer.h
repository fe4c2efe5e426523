#ifndef GRADWIRE_WORKER_LEARNING_SLICED_OPTIMIZER_H_
#define GRADWIRE_WORKER_LEARNING_SLICED_OPTIMIZER_H_

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/learning/optimizer.h"

namespace gradwire {

// One of torch's optimisers with the same bits and less memory traffic. They make several
// passes over each tensor; on the whole of a large one each pass reads it from
// memory again. This one hands them slices of the parameters that stay in a core's
// cache from the first pass to the last. Not thread-safe.
class SlicedOptimizer {
 public:
  // `parameters`: float32, on the CPU, contiguous.
  SlicedOptimizer(absl::Span<const torch::Tensor> parameters, OptimizerKind kind);

  // Updates the parameters. `gradient` has theirs in a row.
  void Step(const torch::Tensor& gradient, double learning_rate);

  // Before a Step that may have to be undone: keeps a copy of the parameters and of State(), in
  // memory that is used again and again.
  void Save();
  // Makes parameters and state what they were when Save was called last.
  void Undo();

  // What the next Step depends on besides parameters, gradient and learning rate, as the
  // kind's `dimensions` say, of all parameters in a row, a copy: the momentum of SGD; the
  // step, exp_avg and exp_avg_sq of Adam. Empty as long as there is none. It does not depend on how
  // parameters are sliced.
  std::vector<torch::Tensor> State() const;
  // Makes it what State() gave. InvalidArgument if it does not fit the parameters; the
  // state is unchanged then.
  absl::Status SetState(const std::vector<torch::Tensor>& state);

 private:
  absl::Status CheckState(const std::vector<torch::Tensor>& state) const;
  // What the optimiser keeps of each slice; empty as long as there is none.
  std::vector<std::vector<torch::Tensor>> StateOfSlices() const;

  const OptimizerKind kind_;
  std::vector<torch::Tensor> slices_;                    // share the parameters' memory
  std::unique_ptr<torch::optim::Optimizer> optimizer_;   // of the slices
  std::vector<torch::Tensor> saved_parameters_;          // by slice
  std::vector<std::vector<torch::Tensor>> saved_state_;  // likewise; empty: there was none
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_LEARNING_SLICED_OPTIMIZER_H_
