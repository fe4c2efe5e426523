#ifndef GRADWIRE_WORKER_BACKENDS_FOLD_LANE_H_
#define GRADWIRE_WORKER_BACKENDS_FOLD_LANE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/wire/chunk.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"
#include "worker/backends/fold/piece.h"
#include "worker/backends/fold/piece_queue.h"

namespace gradwire {

// Where an aggregator is.
struct Endpoint {
  std::string name;             // "coordinator 10.10.1.5:29400"
  std::string address;          // "host:port"
  absl::optional<Rank> worker;  // it is this worker
};

// What lanes need of their back end. Called on the lanes' threads.
class LaneHost {
 public:
  virtual ~LaneHost() = default;
  // The exchange of a key, waiting until it is handed in; null once the back
  // end has failed. OutOfRange: neither the open step nor the next one.
  virtual absl::StatusOr<std::shared_ptr<Exchange>> WaitFor(Step step, Bucket bucket) = 0;
  // The piece's mean is written.
  virtual void OnMean(const Piece& piece) = 0;
  virtual void OnSent(uint64_t bytes) = 0;
  // A finite gradient became infinite in the type of the wire.
  virtual void OnOverflow(Step step) = 0;
  virtual void OnReceived(uint64_t bytes) = 0;
  // The lane is broken. The first failure counts.
  virtual void OnFailure(absl::Status status, absl::optional<Rank> suspect) = 0;
};

// What all lanes of a back end know; constant.
struct LaneContext {
  LaneHost* host = nullptr;
  View view;
  std::vector<BucketSpec> buckets;  // in the type of the wire
};

// One way to one aggregator: a thread that sends this rank's terms, and one
// that takes means.
class Lane {
 public:
  explicit Lane(const LaneContext& context);
  // Cancel and Join first.
  virtual ~Lane() = default;

  // Waits until the aggregator can be reached; see WaitConnected.
  virtual absl::Status Connect(const std::function<absl::Status()>& ended) = 0;
  // Ends both threads soon. From any thread.
  virtual void Cancel();
  // After the last step: all terms are acknowledged. Errors come by OnFailure.
  virtual void Finish() = 0;
  // Whose terms of `step` the aggregator lacks; an error names the aggregator
  // that does not answer.
  virtual absl::StatusOr<std::vector<Rank>> Missing(Step step) = 0;

  void Start();
  void Push(Piece piece) { queue_.Push(std::move(piece)); }
  void Join();

 protected:
  virtual void SendAll() = 0;
  virtual void ReceiveAll() = 0;

  ChunkHeader HeaderOf(const Piece& piece) const;
  // This rank's term of a piece in the type of the wire, without a copy where
  // the types are the same.
  Chunk TermOf(const Piece& piece) const;
  Chunk NarrowTerm(const ChunkHeader& header, const Transfer& transfer, uint64_t bytes) const;
  // Writes a mean to where it belongs.
  absl::Status Take(const ChunkHeader& header, const Pieces& payload);
  absl::StatusOr<Piece> FindPiece(const ChunkHeader& header, uint64_t bytes);

  const LaneContext& context_;
  PieceQueue queue_;
  std::thread sender_;
  std::thread receiver_;
};

// Through gRPC. `lane` of `lanes` connections to the same aggregator.
std::unique_ptr<Lane> MakeRemoteLane(const LaneContext& context, Endpoint endpoint, int lane,
                                     int lanes);

class Aggregator;

// To the aggregator of this process.
std::unique_ptr<Lane> MakeLocalLane(const LaneContext& context, Aggregator* aggregator);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_FOLD_LANE_H_
