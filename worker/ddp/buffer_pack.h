#ifndef GRADWIRE_WORKER_DDP_BUFFER_PACK_H_
#define GRADWIRE_WORKER_DDP_BUFFER_PACK_H_

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace gradwire {

// A model's buffers (BatchNorm statistics) as one run of bytes, so that they
// travel as one bucket. Not thread-safe.
class BufferPack {
 public:
  // `buffers`: any type, on the CPU, contiguous; in registration order.
  explicit BufferPack(std::vector<torch::Tensor> buffers);

  bool empty() const { return bytes_.empty(); }
  size_t size() const { return bytes_.size(); }
  // Copies the model's buffers to bytes().
  void Pack();
  // Copies bytes() to the model's buffers.
  void Unpack();
  absl::Span<uint8_t> bytes() { return absl::MakeSpan(bytes_); }

 private:
  std::vector<torch::Tensor> buffers_;
  std::vector<uint8_t> bytes_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DDP_BUFFER_PACK_H_
