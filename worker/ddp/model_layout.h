#ifndef GRADWIRE_WORKER_DDP_MODEL_LAYOUT_H_
#define GRADWIRE_WORKER_DDP_MODEL_LAYOUT_H_

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/compress/low_rank/low_rank_plan.h"
#include "common/wire/layout.h"
#include "worker/ddp/reducer.h"

namespace gradwire {

// How the reducer's buckets travel as products of `rank`.
LowRankPlan LowRankPlanOf(const Reducer& reducer, uint64_t rank);

// SHA-256 of the tensors' elements, one after the other, as they lie in memory
// (little endian), in 64 hexadecimal digits. Tensors are contiguous, on the CPU.
std::string Sha256(const std::vector<torch::Tensor>& tensors);

// Those that are float32, as they lie in memory, in base64. Likewise contiguous, on the CPU.
std::string FloatsInBase64(const std::vector<torch::Tensor>& tensors);

// Names, shapes and types of all parameters, then all buffers, in registration order.
Layout LayoutOf(const torch::nn::Module& model);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DDP_MODEL_LAYOUT_H_
