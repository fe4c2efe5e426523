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

// Returns the plan that sends the reducer's buckets as products of `rank`.
LowRankPlan LowRankPlanOf(const Reducer& reducer, uint64_t rank);

// Returns the SHA-256 of the tensors' elements in order, as in memory (little endian), as 64
// hexadecimal digits. Tensors must be contiguous and on the CPU.
std::string Sha256(const std::vector<torch::Tensor>& tensors);

// Returns the float32 tensors among them, as in memory, in base64. Same conditions.
std::string FloatsInBase64(const std::vector<torch::Tensor>& tensors);

// Returns names, shapes and types of all parameters, then all buffers, in registration order.
Layout LayoutOf(const torch::nn::Module& model);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DDP_MODEL_LAYOUT_H_
