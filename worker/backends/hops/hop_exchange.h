#ifndef GRADWIRE_WORKER_BACKENDS_HOPS_HOP_EXCHANGE_H_
#define GRADWIRE_WORKER_BACKENDS_HOPS_HOP_EXCHANGE_H_

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/wire/chunk.h"
#include "worker/backends/backend.h"
#include "worker/backends/exchange.h"
#include "worker/backends/hops/hop_plans.h"
#include "worker/backends/hops/hop_position.h"
#include "worker/backends/hops/neighbor_stream.h"
#include "worker/backends/memory/payload_slots.h"
#include "worker/backends/transfer_table.h"

namespace gradwire {

// Collectives of one view from rank to rank, chunk by chunk. A chunk that arrives is added (or
// copied) and sent on at once, so that both directions of a link are busy. The plans define the
// routes; a worker may carry several ranks.
//
//   neighbors ── chunks ──► stream threads of HopBackend: add, queue the next hops
//                                   │ queue                        ▲
//                                   ▼                              │ rank of this worker
//                      sender thread: writes to a neighbor ────────┘
//
// Between two ranks of one worker a chunk stays in memory: the sender thread gives it to the other
// rank. Between two workers of a host its payload goes through shared memory (PayloadSlots), with
// BackendOptions::slots. A neighbor that is ahead does not wait. A chunk that arrives before the
// receiving rank has contributed its terms, or before chunks that must be added first, is kept and
// added by the sender thread; at most a segment for each hop.
//
// With G groups, bucket i is in group i mod G; each group has its own queue, thread and
// connections.
//
// The plan fixes the order of sums: the same bits on every rank, whichever worker carries it, and
// the fold if the topology says so. With bf16 or fp16 on the wire, every hop adds in float32 and
// rounds once, and all ranks apply the mean as it was rounded. Memory: slices in flight; kept
// chunks; for 16-bit types one gradient in the wire type; and both again for each further rank of
// the worker, unless the topology shares memory. Float32 sums are made in the memory of the result.
class HopExchange : public Exchange {
 public:
  // `topology` must outlive the exchange.
  HopExchange(const Topology* topology, const View& view, const BackendOptions& options);
  ~HopExchange() override;

  // Connects with the neighbors and starts the senders. Call it once, first.
  absl::Status Start(const Backend::Ended& ended);

  void AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) override;
  void Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
              Done done) override;
  void Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) override;
  void Cancel(absl::Status reason) override { table_.Fail(reason, absl::nullopt); }
  absl::Status Finish(absl::Time deadline) override;
  TransferTotals totals() const override;
  absl::optional<Suspect> suspect() const override { return table_.suspect(); }

  const View& view() const { return view_; }
  // Handle a chunk from a neighbor's stream, and the end of the stream; see HopBackend.
  absl::Status OnChunk(StreamId stream, Chunk chunk);
  void OnEnd(StreamId stream, const absl::Status& status);

 private:
  using HopKey = EarlyChunks::Key;  // a hop to a rank of this worker

  // A bucket under way. The counts of positions are guarded by mutex_.
  struct HopTransfer : Transfer {
    using Transfer::Transfer;
    // PrepareTerms runs on the sender thread; Take on one thread at a time for each hop.
    std::map<Rank, HopPosition> positions;
    int taking = 0;  // threads that use the spans; guarded by mutex_
  };
  // The stream from one neighbor to one rank in one group.
  using Source = std::pair<Edge, int>;
  struct SourceState {
    StreamId stream;
    bool over = false;
  };
  // A chunk that is ready to be sent.
  struct Outgoing {
    std::shared_ptr<HopTransfer> transfer;
    Rank sender;
    int send = 0;  // of the sender's plan
    const HopChunk* hop_chunk = nullptr;
  };
  // The next task of a sender thread; all empty after a mere wait.
  struct Work {
    std::shared_ptr<HopTransfer> taker;  // takes `chunk`, which arrived early
    HopKey key;
    Chunk chunk;
    Outgoing outgoing;
  };
  // The state of a group's sender thread.
  struct Queue {
    // The highest bucket goes first, because the next forward pass begins with it.
    std::map<Bucket, std::deque<Outgoing>> outgoing;
    EarlyChunks early;
    bool over = false;  // the thread has ended
  };
  // A connection to another worker.
  struct Link {
    std::unique_ptr<NeighborSender> neighbour;
    std::unique_ptr<SlotWriter> slots;  // null: payloads go through the network
    std::atomic<uint64_t> sent_bytes{0};
  };
  struct Group {
    std::map<Edge, Link> links;
    std::thread sender;
  };
  struct Memory {
    std::vector<uint8_t> half;    // for 16-bit types: memory that is sent
    std::vector<uint8_t> result;  // empty: the transfer's memory
  };

  absl::Status Connect(Edge edge, const Backend::Ended& ended);
  // Returns the slots of a link to `to`; null if all goes through the network.
  std::unique_ptr<SlotWriter> MakeSlots(Rank to);
  void AddMemory(LayoutId layout, Bucket bucket, const BucketSpec& spec, uint64_t result_bytes);
  HopPosition MakePosition(const Transfer& transfer, Rank rank);
  void QueueTerms(const std::shared_ptr<HopTransfer>& transfer, const HopPosition& position)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns an error if chunks of a step that is over were kept but belonged to no bucket of it, or
  // if a neighbor that has gone still owes chunks.
  absl::Status CheckSources(const HopTransfer& transfer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enqueue(Outgoing outgoing) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets the chunk have the payload of its slot; `reader` then empties it.
  absl::Status FindPayload(StreamId stream, Chunk* chunk, std::shared_ptr<SlotReader>* reader);
  absl::Status CheckStream(StreamId stream, const ChunkHeader& header, const HopKey& key);
  // Judges and accepts a chunk whose payload was found.
  absl::Status Judge(StreamId stream, Chunk chunk, const std::vector<BucketSpec>& buckets);
  // Accepts a chunk that was judged.
  absl::Status Accept(const HopKey& key, Chunk chunk);
  // Returns the transfer that takes the chunk now; null if the chunk was kept for later.
  absl::StatusOr<std::shared_ptr<HopTransfer>> FindOrKeep(const HopKey& key, Chunk* chunk);
  absl::Status Take(const std::shared_ptr<HopTransfer>& transfer, const HopKey& key,
                    const Chunk& chunk);
  // Whether a source still owes data to the transfer.
  bool Owes(const Source& source, const HopTransfer& transfer) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether nothing is left to do; true only once.
  bool EndsNow(const HopTransfer& transfer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void SenderLoop(int group);
  bool NextWork(int group, Work* work);  // false: the end
  void NextEarly(Queue* queue, Work* work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NextOutgoing(Queue* queue, Work* work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Send(const Outgoing& outgoing);
  absl::Status SendTo(Link* link, const Outgoing& outgoing, const ChunkHeader& header,
                      const ByteSpans& payload);
  ChunkHeader HeaderOf(const Outgoing& outgoing, const Hop& hop) const;

  // Returns the error for neighbors that still send after the exchange has failed.
  absl::Status LetGo() const;
  // Returns the error for a neighbor that ended its stream in order but owes chunks.
  absl::Status HasLeft(Rank neighbour) const;
  void Fail(const absl::Status& status, Rank neighbour);
  void Stop();
  void Drain();
  Lateness Explain(const Transfer& late);
  std::string NameOfNeighbour(Rank rank) const;
  int GroupOf(Bucket bucket) const { return bucket.value() % static_cast<int>(groups_.size()); }

  const Topology& topology_;
  const View view_;
  const std::vector<Rank> ranks_;  // of this worker
  const v1::DType wire_;
  const Security security_;
  const bool uses_slots_;
  HopPlans plans_;
  OverflowMonitor overflow_;
  std::atomic<uint64_t> received_bytes_{0};
  std::vector<Group> groups_;  // constant after Start
  uint32_t links_ = 0;         // with slots; only Start counts them
  // Lent to the buckets' transfers; only for the first rank if the topology shares memory.
  std::map<std::tuple<LayoutId, Bucket, Rank>, Memory> memory_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<Source, SourceState> sources_ ABSL_GUARDED_BY(mutex_);  // that have sent data
  std::map<StreamId, std::shared_ptr<SlotReader>> readers_ ABSL_GUARDED_BY(mutex_);
  std::vector<Queue> queues_ ABSL_GUARDED_BY(mutex_);  // by group
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;          // transfers
  int taking_ ABSL_GUARDED_BY(mutex_) = 0;             // threads that use transfers
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;     // no more steps
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;       // after a failure
  TransferTable table_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_HOPS_HOP_EXCHANGE_H_
