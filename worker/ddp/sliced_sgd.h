#ifndef GRADWIRE_WORKER_DDP_SLICED_SGD_H_
#define GRADWIRE_WORKER_DDP_SLICED_SGD_H_

#include <torch/torch.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace gradwire {

// torch::optim::SGD with the same bits and less memory traffic. SGD makes several
// passes over each tensor; on the whole of a large one each pass reads it from
// memory again. This one hands SGD slices of the parameters that stay in a core's
// cache from the first pass to the last. Not thread-safe.
class SlicedSgd {
 public:
  // `parameters`: float32, on the CPU, contiguous.
  SlicedSgd(absl::Span<const torch::Tensor> parameters, const torch::optim::SGDOptions& options);

  // Updates the parameters. `gradient` has theirs in a row.
  void Step(const torch::Tensor& gradient);

  // What the next Step depends on besides parameters and gradient: the momentum of all
  // parameters in a row, one dimension, a copy; or nothing, as long as there is none. It
  // does not depend on how parameters are sliced.
  std::vector<torch::Tensor> State() const;
  // Makes it what State() gave. InvalidArgument if it does not fit the parameters; the
  // state is unchanged then.
  absl::Status SetState(const std::vector<torch::Tensor>& state);

 private:
  std::vector<torch::Tensor> slices_;  // share the parameters' memory
  torch::optim::SGD sgd_;              // of the slices
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DDP_SLICED_SGD_H_
