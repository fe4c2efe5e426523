#ifndef GRADWIRE_WORKER_TORCH_PCH_H_
#define GRADWIRE_WORKER_TORCH_PCH_H_

// Precompiled for every unit of the worker library: torch/torch.h costs 26 s.
#include <torch/torch.h>

#endif  // GRADWIRE_WORKER_TORCH_PCH_H_
