#ifndef GRADWIRE_WORKER_DDP_HASH_H_
#define GRADWIRE_WORKER_DDP_HASH_H_

#include <torch/torch.h>

#include <string>
#include <vector>

namespace gradwire {

// SHA-256 of the tensors' elements, one after the other, as they lie in memory
// (little endian), in 64 hexadecimal digits. Tensors are contiguous, on the CPU.
std::string Sha256(const std::vector<torch::Tensor>& tensors);

// Those that are float32, as they lie in memory, in base64. Likewise contiguous, on the CPU.
std::string FloatsInBase64(const std::vector<torch::Tensor>& tensors);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DDP_HASH_H_
