#ifndef GRADWIRE_WORKER_BACKENDS_FOLD_LANE_H_
#define GRADWIRE_WORKER_BACKENDS_FOLD_LANE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/aggregation/aggregation_service.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/compress/compression_totals.h"
#include "common/rpc/channel.h"
#include "common/rpc/security.h"
#include "common/wire/chunk.h"
#include "common/wire/judge.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"
#include "worker/backends/compressors.h"
#include "worker/backends/fold/chunk_queue.h"

namespace gradwire {

// An aggregator and the shares that it sums.
struct Endpoint {
  std::string name;                       // "coordinator 10.10.1.5:29400"
  std::string address;                    // "host:port"
  absl::optional<Incarnation> worker;     // set if it is this worker
  std::vector<int> shares;                // see Grid; the shares of all endpoints are 0 … n-1
  absl::Duration silence = kPeerSilence;  // longest silence of its lanes; see MakeChannel
};

// The lanes' view of their exchange. Called on the lanes' threads.
class LaneHost {
 public:
  virtual ~LaneHost() = default;
  // Returns the transfer of a key. If the key is not expected yet, returns null, and `later` runs
  // once it is: a receiver must not wait for it, because its next chunk may be of another layout
  // and more urgent. Null also once the exchange has failed. OutOfRange: neither the open step nor
  // the next one.
  virtual absl::StatusOr<std::shared_ptr<FoldTransfer>> FindOrKeep(const BucketKey& key,
                                                                   std::function<void()> later) = 0;
  // Returns the buckets of a layout on the wire, after waiting for it; null once the exchange has
  // failed.
  virtual const std::vector<BucketSpec>* WaitForLayout(LayoutId layout) = 0;
  // A piece's mean is written.
  virtual void OnMean(const std::shared_ptr<FoldTransfer>& transfer) = 0;
  // Clocks of the ranks, from an answer of a served model.
  virtual void OnClocks(const ChunkClocks& clocks) = 0;
  // A term was encoded, or a mean decoded.
  virtual void OnCompressed(const CompressionTotals& more) = 0;
  virtual void OnSent(uint64_t bytes) = 0;
  // A finite gradient became infinite in the wire type.
  virtual void OnOverflow(Step step, Rank rank) = 0;
  virtual void OnReceived(uint64_t bytes) = 0;
  // The lane failed. The first failure counts.
  virtual void OnFailure(const absl::Status& status, absl::optional<Incarnation> suspect) = 0;
};

// Shared by all lanes of an exchange; constant.
struct LaneContext {
  LaneHost* host = nullptr;
  View view;
  Compressors* compressors = nullptr;
  Security security = {};
  MakeCallMemory make_memory = nullptr;  // of calls to other workers; may be empty
};

// A connection with one aggregator: a thread that sends the terms of this worker's ranks, and a
// thread that receives means.
class Lane {
 public:
  explicit Lane(const LaneContext& context);
  // Call Cancel and Join first.
  virtual ~Lane() = default;

  // Waits until the aggregator can be reached; see WaitConnected.
  virtual absl::Status Connect(const std::function<absl::Status()>& ended) = 0;
  // Makes both threads end soon. From any thread.
  virtual void Cancel();
  // After the last step: returns whether all terms were acknowledged, or the lane has failed,
  // before `deadline`. Errors go to OnFailure.
  virtual bool Finish(absl::Time deadline) = 0;
  // Returns the ranks whose terms of `step` the aggregator lacks; an error names an aggregator that
  // does not answer.
  virtual absl::StatusOr<std::vector<Rank>> Missing(LayoutId layout, Step step) = 0;

  void Start();
  void Push(OutgoingChunk piece) { queue_.Push(std::move(piece)); }
  void Join();

 protected:
  virtual void SendAll() = 0;
  virtual void ReceiveAll() = 0;

  ChunkHeader HeaderOf(const OutgoingChunk& piece) const;
  // Returns a term in the wire type, without a copy if the types are equal.
  Chunk TermOf(const OutgoingChunk& piece) const;
  Chunk NarrowTerm(const ChunkHeader& header, const OutgoingChunk& piece) const;
  Chunk CodedTerm(ChunkHeader header, const OutgoingChunk& piece) const;
  // Writes a mean to its place.
  absl::Status Take(const Chunk& mean);

  const LaneContext& context_;
  ChunkQueue queue_;

  // Returns whether the sender's thread is over before `deadline`. Joins nothing: Join may run at
  // the same time, on another thread.
  bool AwaitSender(absl::Time deadline);

 private:
  struct MeanTarget {
    std::shared_ptr<FoldTransfer> transfer;  // null if the mean is kept for later
    size_t piece = 0;
  };
  absl::StatusOr<MeanTarget> FindTarget(const Chunk& mean);
  // Converts a payload from the wire type to float32 in `out`.
  static absl::Status Unpack(const Chunk& mean, uint8_t* out);
  // As JudgeHeader, for a mean of a layout that this side has.
  absl::StatusOr<Verdict> Judge(const ChunkHeader& header, uint64_t bytes,
                                const std::vector<BucketSpec>& buckets) const;

  std::thread sender_;
  std::thread receiver_;
  Mutex mutex_;
  CondVar changed_;
  bool sender_is_over_ ABSL_GUARDED_BY(mutex_) = false;
};

// The index of a lane among the connections to one aggregator. Lanes divide the pieces of each
// bucket, or the buckets.
struct LaneAssignment {
  int lane = 0;
  int lanes = 1;
  bool by_bucket = false;
};

// A lane through gRPC.
std::unique_ptr<Lane> MakeRemoteLane(const LaneContext& context, Endpoint endpoint,
                                     const LaneAssignment& assignment);

class Aggregator;

// A lane to the aggregator of this process.
std::unique_ptr<Lane> MakeLocalLane(const LaneContext& context, Aggregator* aggregator);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_FOLD_LANE_H_
