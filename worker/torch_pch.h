#ifndef GRADWIRE_WORKER_TORCH_PCH_H_
#define GRADWIRE_WORKER_TORCH_PCH_H_

// Precompiled for all sources of the worker library, because torch/torch.h takes 26 s to compile.
#include <torch/torch.h>

#endif  // GRADWIRE_WORKER_TORCH_PCH_H_
