#include "worker/ddp/rank_buffers.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace gradwire {

RankBuffers::RankBuffers(std::vector<torch::Tensor> buffers, bool broadcast, bool undoable)
    : buffers_(std::move(buffers)), broadcast_(broadcast), undoable_(undoable) {
  for (const torch::Tensor& buffer : buffers_) bytes_ += buffer.nbytes();
  SetRanks({Rank(0)});
  set_ = false;
}

void RankBuffers::SetRanks(absl::Span<const Rank> ranks) {
  const std::vector<Rank> before = std::exchange(ranks_, {ranks.begin(), ranks.end()});
  set_ = true;
  Bytes now(bytes_);
  Pack(&now);
  if (broadcast_) {
    start_ = previous_ = travelling_ = std::move(now);
    return;
  }
  std::vector<std::deque<Bytes>> carried = std::exchange(own_, {});
  const bool keeps = std::exchange(rewound_, false);
  if (!undoable_ && ranks_.size() == 1) return;
  for (const Rank rank : ranks_) {
    const auto had = std::find(before.begin(), before.end(), rank);
    const bool has_own = keeps && had != before.end();
    own_.push_back(has_own ? std::move(carried[had - before.begin()]) : std::deque<Bytes>{now});
  }
}

void RankBuffers::Load(size_t rank) {
  if (broadcast_ && ranks_.size() > 1) Unpack(start_);
  if (!own_.empty()) Unpack(own_[rank].back());
}

void RankBuffers::Store(size_t rank) {
  if (broadcast_ && ranks_[rank] == Rank(0)) Pack(&travelling_);
  if (own_.empty()) return;
  if (undoable_) own_[rank].emplace_back(bytes_);
  Pack(&own_[rank].back());
}

void RankBuffers::Take() {
  previous_.swap(start_);
  start_.swap(travelling_);
  Unpack(start_);
  has_previous_ = true;
}

void RankBuffers::Keep() {
  has_previous_ = false;
  if (!undoable_) return;
  for (std::deque<Bytes>& own : own_) own.pop_front();
}

void RankBuffers::Rewind() {
  if (!set_) return;
  if (broadcast_) {
    if (has_previous_) start_.swap(previous_);
    has_previous_ = false;
    Unpack(start_);
    return;
  }
  rewound_ = true;
  for (std::deque<Bytes>& own : own_) own.resize(1);
  if (!own_.empty()) Unpack(own_.front().front());
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
