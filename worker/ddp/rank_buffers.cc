#include "worker/ddp/rank_buffers.h"

#include <cstring>
#include <utility>

namespace gradwire {

RankBuffers::RankBuffers(std::vector<torch::Tensor> buffers, bool broadcast)
    : buffers_(std::move(buffers)), broadcast_(broadcast) {
  for (const torch::Tensor& buffer : buffers_) bytes_ += buffer.nbytes();
  SetRanks({Rank(0)});
}

void RankBuffers::SetRanks(absl::Span<const Rank> ranks) {
  ranks_ = ranks.size();
  carries_root_ = ranks.front() == Rank(0);
  Bytes now(bytes_);
  Pack(&now);
  starts_.assign(broadcast_ ? 1 : ranks_ > 1 ? ranks_ : 0, now);
  if (broadcast_) previous_ = travelling_ = std::move(now);
}

void RankBuffers::Load(size_t rank) {
  if (ranks_ > 1) Unpack(starts_[broadcast_ ? 0 : rank]);
}

void RankBuffers::Store(size_t rank) {
  if (broadcast_) {
    if (rank == 0 && carries_root_) Pack(&travelling_);
  } else if (ranks_ > 1) {
    Pack(&starts_[rank]);
  }
}

void RankBuffers::Take() {
  previous_.swap(starts_[0]);
  starts_[0].swap(travelling_);
  Unpack(starts_[0]);
  has_previous_ = true;
}

void RankBuffers::Rewind() {
  if (!broadcast_) return;
  if (has_previous_) starts_[0].swap(previous_);
  has_previous_ = false;
  Unpack(starts_[0]);
}

void RankBuffers::Pack(Bytes* out) const {
  uint8_t* to = out->data();
  for (const torch::Tensor& buffer : buffers_) {
    std::memcpy(to, buffer.data_ptr(), buffer.nbytes());
    to += buffer.nbytes();
  }
}

void RankBuffers::Unpack(const Bytes& in) {
  const uint8_t* from = in.data();
  for (const torch::Tensor& buffer : buffers_) {
    std::memcpy(buffer.data_ptr(), from, buffer.nbytes());
    from += buffer.nbytes();
  }
}

}  // namespace gradwire
