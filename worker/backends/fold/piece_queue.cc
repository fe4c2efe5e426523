#include "worker/backends/fold/piece_queue.h"

namespace gradwire {

void PieceQueue::Push(Piece piece) {
  MutexLock lock(&mutex_);
  if (cancelled_) return;
  const BucketKey& key = piece.transfer->key;
  flows_[{key.layout, piece.rank}].waiting[key.bucket].push_back(std::move(piece));
  ++waiting_;
  changed_.NotifyOne();
}

bool PieceQueue::MayLeave(const Flow& flow) const {
  if (flow.waiting.empty()) return false;
  const Bucket highest = flow.waiting.rbegin()->first;
  uint64_t bytes = 0;
  for (auto it = flow.under_way.lower_bound(highest); it != flow.under_way.end(); ++it) {
    bytes += it->second;
  }
  return bytes < window_bytes_;
}

PieceQueue::Flow* PieceQueue::NextFlow() {
  Flow* next = nullptr;
  for (auto& [key, flow] : flows_) {
    if (!MayLeave(flow)) continue;
    if (next == nullptr || next->waiting.rbegin()->first < flow.waiting.rbegin()->first) {
      next = &flow;
    }
  }
  return next;
}

absl::optional<Piece> PieceQueue::TakeNext() {
  Flow* flow = NextFlow();
  if (flow == nullptr) return absl::nullopt;
  const auto highest = std::prev(flow->waiting.end());
  Piece next = std::move(highest->second.front());
  flow->under_way[highest->first] += next.bytes();
  highest->second.pop_front();
  if (highest->second.empty()) flow->waiting.erase(highest);
  --waiting_;
  return next;
}

absl::optional<Piece> PieceQueue::Pop() {
  MutexLock lock(&mutex_);
  while (!cancelled_ && !(closed_ && waiting_ == 0)) {
    if (absl::optional<Piece> next = TakeNext()) return next;
    changed_.Wait(&mutex_);
  }
  return absl::nullopt;
}

void PieceQueue::OnMean(const FoldTransfer& transfer, size_t index) {
  MutexLock lock(&mutex_);
  for (auto& [key, flow] : flows_) {
    if (key.first != transfer.key.layout) continue;
    const auto found = flow.under_way.find(transfer.key.bucket);
    if (found == flow.under_way.end()) continue;  // bytes that another worker sent
    found->second -= transfer.grid.Bytes(index);
    if (found->second == 0) flow.under_way.erase(found);
  }
  changed_.NotifyOne();
}

void PieceQueue::Close() {
  MutexLock lock(&mutex_);
  closed_ = true;
  changed_.NotifyAll();
}

void PieceQueue::Cancel() {
  MutexLock lock(&mutex_);
  cancelled_ = true;
  flows_.clear();
  waiting_ = 0;
  changed_.NotifyAll();
}

}  // namespace gradwire
