#include "worker/backends/fold/chunk_queue.h"

namespace gradwire {

void ChunkQueue::Push(OutgoingChunk piece) {
  MutexLock lock(&mutex_);
  if (cancelled_) return;
  const BucketKey& key = piece.transfer->key;
  flows_[{key.layout, piece.rank}].waiting[key.bucket].push_back(std::move(piece));
  ++waiting_;
  changed_.NotifyOne();
}

bool ChunkQueue::MayLeave(const Flow& flow) const {
  if (flow.waiting.empty()) return false;
  const Bucket highest = flow.waiting.rbegin()->first;
  uint64_t bytes = 0;
  for (auto it = flow.under_way.lower_bound(highest); it != flow.under_way.end(); ++it) {
    bytes += it->second;
  }
  return bytes < window_bytes_;
}

ChunkQueue::Flow* ChunkQueue::NextFlow() {
  Flow* next = nullptr;
  for (auto& [key, flow] : flows_) {
    if (!MayLeave(flow)) continue;
    if (next == nullptr || next->waiting.rbegin()->first < flow.waiting.rbegin()->first) {
      next = &flow;
    }
  }
  return next;
}

absl::optional<OutgoingChunk> ChunkQueue::TakeNext() {
  Flow* flow = NextFlow();
  if (flow == nullptr) return absl::nullopt;
  const auto highest = std::prev(flow->waiting.end());
  OutgoingChunk next = std::move(highest->second.front());
  flow->under_way[highest->first] += next.bytes();
  highest->second.pop_front();
  if (highest->second.empty()) flow->waiting.erase(highest);
  --waiting_;
  return next;
}

absl::optional<OutgoingChunk> ChunkQueue::Pop() {
  MutexLock lock(&mutex_);
  while (!cancelled_ && !(closed_ && waiting_ == 0)) {
    if (absl::optional<OutgoingChunk> next = TakeNext()) return next;
    changed_.Wait(&mutex_);
  }
  return absl::nullopt;
}

void ChunkQueue::OnMean(const FoldTransfer& transfer, size_t index) {
  MutexLock lock(&mutex_);
  for (auto& [key, flow] : flows_) {
    if (key.first != transfer.key.layout) continue;
    const auto found = flow.under_way.find(transfer.key.bucket);
    if (found == flow.under_way.end()) continue;  // bytes sent by another worker
    found->second -= transfer.grid.Bytes(index);
    if (found->second == 0) flow.under_way.erase(found);
  }
  changed_.NotifyOne();
}

void ChunkQueue::Close() {
  MutexLock lock(&mutex_);
  closed_ = true;
  changed_.NotifyAll();
}

void ChunkQueue::Cancel() {
  MutexLock lock(&mutex_);
  cancelled_ = true;
  flows_.clear();
  waiting_ = 0;
  changed_.NotifyAll();
}

}  // namespace gradwire
