#ifndef GRADWIRE_WORKER_LEARNING_CLIP_NORM_H_
#define GRADWIRE_WORKER_LEARNING_CLIP_NORM_H_

#include <torch/torch.h>

#include <vector>

namespace gradwire {

// Whether no element is infinite or NaN. `floats`: float32, on the CPU, contiguous.
bool AllFinite(const torch::Tensor& floats);

// What gradients (float32, one or more) are multiplied with so that the 2-norm of all of them
// together, that of their norms, is at most `max_norm` > 0: min(1, max_norm / (norm + 1e-6)), as in
// torch.nn.utils.clip_grad_norm_, with its bits. NaN if an element is NaN; 0 if one is infinite.
float ClipScale(const std::vector<torch::Tensor>& gradients, double max_norm);

// `gradient` itself if `scale` is 1; else a copy, multiplied.
torch::Tensor Scaled(const torch::Tensor& gradient, float scale);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_LEARNING_CLIP_NORM_H_
