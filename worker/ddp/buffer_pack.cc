#include "worker/ddp/buffer_pack.h"

#include <cstring>
#include <utility>

namespace gradwire {

BufferPack::BufferPack(std::vector<torch::Tensor> buffers) : buffers_(std::move(buffers)) {
  size_t bytes = 0;
  for (const torch::Tensor& buffer : buffers_) bytes += buffer.nbytes();
  bytes_.resize(bytes);
}

void BufferPack::Pack() {
  uint8_t* out = bytes_.data();
  for (const torch::Tensor& buffer : buffers_) {
    std::memcpy(out, buffer.data_ptr(), buffer.nbytes());
    out += buffer.nbytes();
  }
}

void BufferPack::Unpack() {
  const uint8_t* in = bytes_.data();
  for (const torch::Tensor& buffer : buffers_) {
    std::memcpy(buffer.data_ptr(), in, buffer.nbytes());
    in += buffer.nbytes();
  }
}

}  // namespace gradwire
