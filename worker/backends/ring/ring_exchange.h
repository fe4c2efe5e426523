#ifndef GRADWIRE_WORKER_BACKENDS_RING_RING_EXCHANGE_H_
#define GRADWIRE_WORKER_BACKENDS_RING_RING_EXCHANGE_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/wire/chunk.h"
#include "worker/backends/backend.h"
#include "worker/backends/exchange.h"
#include "worker/backends/overflow_monitor.h"
#include "worker/backends/ring/early_chunks.h"
#include "worker/backends/ring/neighbor_service.h"
#include "worker/backends/ring/ring_position.h"
#include "worker/backends/ring/ring_sender.h"
#include "worker/backends/traffic.h"
#include "worker/backends/transfer_table.h"

namespace gradwire {

// Ring all-reduce of one view, chunk by chunk: a chunk that comes from the left is added
// to (or copied) and goes out to the right at once, so that both directions of the link
// are busy. The ring has W positions, one a rank; a worker may carry several.
//
//   left ── chunks ──► stream thread of NeighborService: add, queue the next hop
//                                   │ queue                        ▲
//                                   ▼                              │ rank of this worker
//                      sender thread: writes to the right ─────────┘
//
// Between two ranks of one worker a chunk stays where it is: the sender thread hands it
// to the next rank. A neighbour that is ahead does not wait: what comes before the
// receiving rank has handed in its terms is kept, less than two buckets' bytes of each,
// and added by the sender thread.
//
// Each block's sum begins at the rank that FoldBlocks names, so the mean in float32 is the
// fold. With bf16 or fp16 on the wire every hop adds in float32 and rounds once, and all ranks
// apply the mean as it was rounded: near the fold, the same bits on every rank, whoever carries
// it. Memory: slices in flight, and for halves one gradient on the wire; what is kept; float32
// sums are made in the result's memory.
class RingExchange : public Exchange {
 public:
  RingExchange(const View& view, v1::DType wire);
  ~RingExchange() override;

  // Connects with the right neighbours and starts the sender. Call once, first.
  absl::Status Start(const Backend::Ended& ended);

  void AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) override;
  void Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
              Done done) override;
  void Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) override;
  void Cancel(absl::Status reason) override { table_.Fail(reason, absl::nullopt); }
  absl::Status Finish(absl::Time deadline) override;
  TransferTotals totals() const override;
  absl::optional<Incarnation> suspect() const override { return table_.suspect(); }

  // What comes in a stream from the left, and the end of that stream; see ChunkHandler.
  absl::Status OnChunk(StreamId stream, Chunk chunk);
  void OnEnd(StreamId stream, const absl::Status& status);

 private:
  // A bucket under way. The counts of positions are guarded by mutex_.
  struct RingTransfer : Transfer {
    using Transfer::Transfer;
    // PrepareTerms: sender thread; Take: one thread at a time.
    std::map<Rank, RingPosition> positions;
    int taking = 0;  // threads that use the spans; guarded by mutex_
  };
  // Where chunks of one left neighbour come from.
  struct Left {
    StreamId stream;
    bool over = false;
  };
  // What is ready for the rank to the right of `sender`.
  struct Outgoing {
    std::shared_ptr<RingTransfer> transfer;
    Rank sender;
    int hop = 0;
    const RingParcel* parcel = nullptr;
  };
  // What the sender thread does next; all empty after a mere wait.
  struct Work {
    std::shared_ptr<RingTransfer> taker;  // of `chunk`, which came early
    Chunk chunk;
    Outgoing outgoing;
  };

  RingPosition MakePosition(const Transfer& transfer, Rank rank);
  void QueueTerms(const std::shared_ptr<RingTransfer>& transfer, const RingPosition& position)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What came early of a step that is over was of no bucket of it; and a left neighbour that
  // is gone sends no more.
  absl::Status CheckLefts(const RingTransfer& transfer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Queue(Outgoing outgoing) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckStream(StreamId stream, const ChunkHeader& header);
  // A judged chunk for one of this worker's ranks.
  absl::Status Accept(Chunk chunk);
  // The transfer that takes the chunk now; null if the chunk was kept for later.
  absl::StatusOr<std::shared_ptr<RingTransfer>> FindOrKeep(Chunk* chunk);
  absl::Status Take(const std::shared_ptr<RingTransfer>& transfer, const Chunk& chunk);
  // Whether a left neighbour owes something of a transfer under way.
  bool Owes(Rank left) const;
  bool IsOver(const RingTransfer& transfer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void SenderLoop();
  bool NextWork(Work* work);  // false: the end
  void NextEarly(Work* work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NextOutgoing(Work* work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Send(const Outgoing& outgoing);
  absl::Status SendTo(RingSender* right, const Outgoing& outgoing, const ChunkHeader& header,
                      const Pieces& payload);
  ChunkHeader HeaderOf(const Outgoing& outgoing) const;

  // What a neighbour that ended its stream in good order, but owes chunks, is said to have done.
  absl::Status HasLeft(Rank left) const;
  void Fail(const absl::Status& status, absl::string_view side, Rank neighbour);
  void Stop();
  void Drain();
  absl::Status Explain(const Transfer& late);
  std::string NameOfNeighbour(absl::string_view side, Rank rank) const;
  Rank receiver_of(const ChunkHeader& header) const {
    return RightOf(header.rank, view_.world_size);
  }

  const View view_;
  const std::vector<Rank> ranks_;  // of this worker
  const v1::DType wire_;
  OverflowMonitor overflow_;
  Traffic traffic_;
  // By rank of this worker whose right neighbour is another worker. Constant after Start.
  std::map<Rank, std::unique_ptr<RingSender>> rights_;
  // Of each bucket: how it goes round, and for halves the memory of what is sent. Lent to the
  // bucket's transfers.
  struct Way {
    RingSchedule schedule;
    std::vector<uint8_t> half_memory;
  };
  std::map<std::pair<LayoutId, Bucket>, Way> ways_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<Rank, Left> lefts_ ABSL_GUARDED_BY(mutex_);  // that have sent something
  // By bucket. The highest goes first: the next forward pass begins with it.
  std::map<Bucket, std::deque<Outgoing>> queue_ ABSL_GUARDED_BY(mutex_);
  EarlyChunks early_ ABSL_GUARDED_BY(mutex_);       // the sender thread takes them
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;       // transfers
  int taking_ ABSL_GUARDED_BY(mutex_) = 0;          // threads that use transfers
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;  // no more steps
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;    // after a failure
  bool sender_over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread sender_;
  TransferTable table_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_RING_RING_EXCHANGE_H_
