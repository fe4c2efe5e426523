#ifndef GRADWIRE_WORKER_BACKENDS_FOLD_CHUNK_QUEUE_H_
#define GRADWIRE_WORKER_BACKENDS_FOLD_CHUNK_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/sums/layout_sums.h"
#include "worker/backends/exchange.h"

namespace gradwire {

// A bucket on its way to its aggregators and back.
struct FoldTransfer : Transfer {
  FoldTransfer(Transfer transfer, Grid grid)
      : Transfer(std::move(transfer)),
        grid(grid),
        received(grid.pieces()),
        pieces_left(grid.pieces()) {}

  const Grid grid;
  std::vector<uint8_t> received;  // by piece; a piece belongs to one lane's receiver
  std::atomic<size_t> pieces_left;
};

// A piece of a bucket that a rank contributes.
struct OutgoingChunk {
  std::shared_ptr<FoldTransfer> transfer;
  size_t index = 0;
  Rank rank;
  absl::Span<const uint8_t> terms;  // the rank's terms of the whole bucket
  double rate = 0;                  // learning rate of the step, for a served model

  uint64_t bytes() const { return transfer->grid.Bytes(index); }
};

// Pieces on their way to one aggregator. The highest bucket goes first, because the next forward
// pass needs it first. At most a window of bytes is under way: it keeps all ranks at the same
// pieces, so that no rank floods a link that others need, aggregators hold little, and an urgent
// bucket does not wait for megabytes in socket buffers.
//
// A piece may leave if less than `window_bytes` of its own and higher buckets of the same layout
// and rank are under way. Lower buckets do not count, so the highest bucket that all ranks have
// contributed always moves on: no order of contributions can deadlock. Each rank has its own
// window, because the means that one rank waits for need the terms of this worker's other ranks,
// which come later. Thread-safe.
class ChunkQueue {
 public:
  explicit ChunkQueue(uint64_t window_bytes) : window_bytes_(window_bytes) {}

  void Push(OutgoingChunk piece);
  // Waits for the next piece that may leave; returns none after Close or Cancel.
  absl::optional<OutgoingChunk> Pop();
  // Called when the mean of piece `index` of a bucket has arrived.
  void OnMean(const FoldTransfer& transfer, size_t index);
  // Queued pieces still leave; then Pop returns none.
  void Close();
  // Pop returns none at once, and queued pieces are dropped.
  void Cancel();

 private:
  // A flow has its own window.
  struct Flow {
    std::map<Bucket, std::deque<OutgoingChunk>> waiting;
    std::map<Bucket, uint64_t> under_way;  // bytes
  };

  bool MayLeave(const Flow& flow) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the flow whose next piece is of the highest bucket; null if none may leave.
  Flow* NextFlow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::optional<OutgoingChunk> TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t window_bytes_;
  Mutex mutex_;
  CondVar changed_;
  std::map<std::pair<LayoutId, Rank>, Flow> flows_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // pieces of all flows
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_FOLD_CHUNK_QUEUE_H_
