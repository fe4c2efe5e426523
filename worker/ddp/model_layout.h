#ifndef GRADWIRE_WORKER_DDP_MODEL_LAYOUT_H_
#define GRADWIRE_WORKER_DDP_MODEL_LAYOUT_H_

#include <torch/torch.h>

#include "common/wire/layout.h"

namespace gradwire {

// Names, shapes and types of all parameters, then all buffers, in registration order.
Layout LayoutOf(const torch::nn::Module& model);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DDP_MODEL_LAYOUT_H_
