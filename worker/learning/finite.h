#ifndef GRADWIRE_WORKER_LEARNING_FINITE_H_
#define GRADWIRE_WORKER_LEARNING_FINITE_H_

#include <torch/torch.h>

namespace gradwire {

// Whether no element is infinite or NaN. `floats`: float32, on the CPU, contiguous.
bool AllFinite(const torch::Tensor& floats);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_LEARNING_FINITE_H_
