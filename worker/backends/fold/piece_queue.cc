#include "worker/backends/fold/piece_queue.h"

#include <utility>

namespace gradwire {
namespace {

Bucket BucketOf(const Piece& piece) { return piece.exchange->transfer.key.bucket; }
uint64_t BytesOf(const Piece& piece) { return piece.exchange->grid.Bytes(piece.index); }

}  // namespace

void PieceQueue::Push(Piece piece) {
  MutexLock lock(&mutex_);
  if (cancelled_) return;
  waiting_[BucketOf(piece)].push_back(std::move(piece));
  changed_.NotifyOne();
}

bool PieceQueue::MayLeave(const Piece& piece) const {
  uint64_t bytes = 0;
  for (auto it = under_way_.lower_bound(BucketOf(piece)); it != under_way_.end(); ++it) {
    bytes += it->second;
  }
  return bytes < window_bytes_;
}

bool PieceQueue::TakeNext(absl::optional<Piece>* next) {
  if (waiting_.empty()) return false;
  auto highest = std::prev(waiting_.end());
  if (!MayLeave(highest->second.front())) return false;
  *next = std::move(highest->second.front());
  under_way_[highest->first] += BytesOf(**next);
  highest->second.pop_front();
  if (highest->second.empty()) waiting_.erase(highest);
  return true;
}

absl::optional<Piece> PieceQueue::Pop() {
  MutexLock lock(&mutex_);
  absl::optional<Piece> next;
  while (!cancelled_ && !TakeNext(&next) && !(closed_ && waiting_.empty())) {
    changed_.Wait(&mutex_);
  }
  return next;
}

void PieceQueue::OnMean(const Piece& piece) {
  MutexLock lock(&mutex_);
  const auto found = under_way_.find(BucketOf(piece));
  if (found == under_way_.end()) return;  // rank 0's bytes, sent by another rank
  found->second -= BytesOf(piece);
  if (found->second == 0) under_way_.erase(found);
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
  waiting_.clear();
  changed_.NotifyAll();
}

}  // namespace gradwire
