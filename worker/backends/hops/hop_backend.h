#ifndef GRADWIRE_WORKER_BACKENDS_HOPS_HOP_BACKEND_H_
#define GRADWIRE_WORKER_BACKENDS_HOPS_HOP_BACKEND_H_

#include <grpcpp/server_context.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/mutex.h"
#include "common/rpc/call_guard.h"
#include "common/rpc/caller.h"
#include "worker/backends/backend.h"
#include "worker/backends/hops/hop_exchange.h"
#include "worker/backends/hops/hop_plan.h"
#include "worker/backends/hops/neighbor_stream.h"

namespace gradwire {

// Collectives between neighbors along a topology; see HopExchange. Serves v1.Neighbor (see
// neighbor.proto), whose chunks go to the exchange of the view. Ends a stream of a stranger if no
// chunk of it is taken within a second.
class HopBackend : public Backend, private grpc::Service {
 public:
  // `topology` must outlive the back end.
  HopBackend(const Topology& topology, const BackendOptions& options);

  absl::StatusOr<std::unique_ptr<Exchange>> Connect(const View& view, const Ended& ended,
                                                    absl::optional<Incarnation>* suspect) override;
  std::vector<grpc::Service*> services() override { return {this}; }

 private:
  class Connected;  // the exchange; it removes itself from here when it is destroyed

  using Stream = grpc::ServerReaderWriter<v1::NeighborReply, grpc::ByteBuffer>;
  // One call of Neighbor.Stream, on its own thread.
  grpc::Status Serve(grpc::ServerContext* context, Stream* stream);
  // Reads until the stream ends. Ends `watch` when a chunk was `taken`.
  absl::Status TakeAll(StreamId id, grpc::ServerContext* context, Stream* stream,
                       std::optional<CallGuard::Watch>* watch, bool* taken);
  // Whether the caller is a member of the run. Blocks while there is no view.
  bool Knows(const grpc::ServerContext& context);
  // Takes a chunk. May block while there is no view: flow control then holds the sender back. An
  // error ends the stream with it.
  absl::Status OnChunk(StreamId id, const grpc::ServerContext& context, Authority* authority,
                       Chunk chunk);
  // A stream of which a chunk was taken has ended; OK if the sender half-closed it. (A stranger
  // whose first chunk is refused does not disturb the run.)
  void OnEnd(StreamId id, const absl::Status& status);
  // Returns the exchange of the chunk's view, after waiting if that is a future view, or of a later
  // view; end its use with Return.
  absl::StatusOr<HopExchange*> Borrow(const grpc::ServerContext& context, const ChunkHeader& chunk);
  bool IsToCome(const ChunkHeader& chunk) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Return();
  // Waits until no chunk is being passed to it.
  void Forget();

  const Topology& topology_;
  const BackendOptions options_;
  CallGuard guard_;
  std::atomic<uint64_t> last_id_{0};

  Mutex mutex_;
  CondVar changed_;
  HopExchange* exchange_ ABSL_GUARDED_BY(mutex_) = nullptr;  // of the view; null: none yet
  int using_ ABSL_GUARDED_BY(mutex_) = 0;                    // calls into it
};

// See RingTopology.
class RingBackend : public HopBackend {
 public:
  explicit RingBackend(const BackendOptions& options) : HopBackend(RingTopology(), options) {}
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_HOPS_HOP_BACKEND_H_
