#ifndef GRADWIRE_WORKER_BACKENDS_RING_RING_BACKEND_H_
#define GRADWIRE_WORKER_BACKENDS_RING_RING_BACKEND_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/wire/chunk.h"
#include "worker/backends/backend.h"
#include "worker/backends/overflow_monitor.h"
#include "worker/backends/ring/early_chunks.h"
#include "worker/backends/ring/neighbor_service.h"
#include "worker/backends/ring/ring_reduction.h"
#include "worker/backends/transfer.h"

namespace gradwire {

// Ring all-reduce between neighbours, chunk by chunk: a chunk that comes in
// from the left is added to (or copied) and goes out to the right at once, so
// that both directions of the link are busy.
//
//   left ── chunks ──► stream thread of NeighborService: add, queue the next hop
//                                   │ queue
//                                   ▼
//                      sender thread: writes to the right, calls `done`
//
// A neighbour that is ahead does not wait: what comes before this rank has handed in
// the bucket is kept, less than two buckets' bytes of each, and added by the sender
// thread.
//
// Sums are in ring order: the same bits on every rank, near the fold. With bf16
// or fp16 on the wire every hop adds in float32 and rounds once, and all ranks
// apply the mean as it was rounded. Memory: slices in flight, and for halves one
// gradient on the wire; what is kept; float32 sums are made in the result's memory.
class RingBackend : public Backend {
 public:
  explicit RingBackend(v1::DType wire);
  ~RingBackend() override;

  absl::Status OnView(const View& view, std::vector<BucketSpec> buckets) override;
  void AllReduceAsync(const ReduceKey& key, absl::Span<const float> terms, absl::Span<float> mean,
                      absl::Time deadline, Done done) override;
  void BroadcastAsync(const ReduceKey& key, absl::Span<uint8_t> bytes, absl::Time deadline,
                      Done done) override;
  void Cancel(absl::Status reason) override;
  absl::Status Finish(absl::Time deadline) override;
  TransferTotals totals() const override;
  absl::optional<Rank> suspect() const override;
  grpc::Service* service() override { return &service_; }

 private:
  // A bucket under way. The counts are guarded by mutex_.
  struct Reduction {
    explicit Reduction(RingReduction ring) : ring(std::move(ring)) {}
    RingReduction ring;       // PrepareTerms: sender thread; Take: one thread at a time
    uint64_t to_receive = 0;  // bytes that have not come
    uint64_t to_take = 0;     // bytes that have not been added or copied
    uint64_t to_send = 0;     // bytes
    bool taking = false;      // a thread uses the spans
  };
  using Key = EarlyChunks::Key;
  static Key KeyOf(const ReduceKey& key) { return {key.step.value(), key.bucket.value()}; }
  // A piece that is ready for the right neighbour.
  struct Outgoing {
    std::shared_ptr<Reduction> reduction;
    int hop = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  void Submit(Transfer transfer);
  void QueueTerms(const std::shared_ptr<Reduction>& reduction)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckEarly(Step step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Queue(Outgoing outgoing) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OnChunk(Chunk chunk);
  absl::Status CheckStep(const ChunkHeader& header);
  // The reduction that takes the chunk now; null if the chunk was kept for later.
  absl::StatusOr<std::shared_ptr<Reduction>> FindOrKeep(Chunk* chunk);
  absl::Status Take(const std::shared_ptr<Reduction>& reduction, const Chunk& chunk);
  void OnLeftEnd(absl::Status status);

  // What the sender thread does next; all empty after a mere wait.
  struct Work {
    std::vector<std::shared_ptr<Reduction>> completed;
    absl::Status status;               // of all `completed`
    std::shared_ptr<Reduction> taker;  // of `chunk`, which came early
    Chunk chunk;
    Outgoing outgoing;
  };
  void SenderLoop();
  bool NextWork(Work* work);  // false: the end
  void NextEarly(Work* work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NextOutgoing(Work* work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WaitForWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status ConnectRight();
  void SendOrFail(const Outgoing& outgoing);
  bool Send(const Outgoing& outgoing);
  // Removes and returns what is complete, or, after a failure, what no thread uses.
  std::vector<std::shared_ptr<Reduction>> TakeCompleted(absl::Status* status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `peer`: the neighbour that failed, or -1.
  void Fail(absl::Status status, int peer);
  absl::Status CloseRight();
  std::string NameOf(absl::string_view side, int rank) const;
  std::string RightName() const { return NameOf("right", right_); }
  std::string LeftName() const { return NameOf("left", left_); }

  const v1::DType wire_;
  OverflowMonitor overflow_;
  NeighborService service_;
  View view_;                        // constant after OnView
  std::vector<BucketSpec> buckets_;  // on the wire; constant after OnView
  // For halves: of each bucket, what is sent. Lent to the bucket's reduction.
  std::vector<std::vector<uint8_t>> half_memory_;
  int left_ = 0;
  int right_ = 0;
  std::atomic<uint64_t> bytes_sent_{0};
  std::atomic<uint64_t> bytes_received_{0};

  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, v1::NeighborReply>> stream_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<Key, std::shared_ptr<Reduction>> reductions_ ABSL_GUARDED_BY(mutex_);
  // By bucket. The highest goes first: the next forward pass begins with it.
  std::map<Bucket, std::deque<Outgoing>> queue_ ABSL_GUARDED_BY(mutex_);
  EarlyChunks early_ ABSL_GUARDED_BY(mutex_);  // the sender thread takes them
  Step open_step_ ABSL_GUARDED_BY(mutex_);
  bool has_view_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  absl::optional<Rank> suspect_ ABSL_GUARDED_BY(mutex_);  // behind failure_
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;        // no more steps
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;          // destructor
  bool sender_over_ ABSL_GUARDED_BY(mutex_) = false;
  bool left_over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread sender_;
};

absl::StatusOr<std::unique_ptr<Backend>> MakeRingBackend(const BackendOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_RING_RING_BACKEND_H_
