#ifndef GRADWIRE_WORKER_LEARNING_CLIP_NORM_H_
#define GRADWIRE_WORKER_LEARNING_CLIP_NORM_H_

#include <torch/torch.h>

#include <vector>

namespace gradwire {

// Whether no element is infinite or NaN. `floats`: float32, on the CPU, contiguous.
bool AllFinite(const torch::Tensor& floats);

// Returns the factor that limits the 2-norm of all gradients (float32, one or more) together to
// `max_norm` > 0: min(1, max_norm / (norm + 1e-6)), where norm is the norm of their norms, with the
// bits of torch.nn.utils.clip_grad_norm_. NaN if an element is NaN; 0 if one is infinite.
float ClipScale(const std::vector<torch::Tensor>& gradients, double max_norm);

// Returns `gradient` itself if `scale` is 1, else a scaled copy.
torch::Tensor Scaled(const torch::Tensor& gradient, float scale);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_LEARNING_CLIP_NORM_H_
