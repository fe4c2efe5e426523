#ifndef GRADWIRE_WORKER_BACKENDS_HOPS_HOP_BACKEND_H_
#define GRADWIRE_WORKER_BACKENDS_HOPS_HOP_BACKEND_H_

#include <memory>

#include "common/base/mutex.h"
#include "worker/backends/backend.h"
#include "worker/backends/hops/hop_exchange.h"
#include "worker/backends/hops/hop_plan.h"
#include "worker/backends/hops/neighbor_stream.h"

namespace gradwire {

// Collectives between neighbors along a topology; see HopExchange. Serves v1.Neighbor, whose chunks
// go to the exchange of the view.
class HopBackend : public Backend, private ChunkHandler {
 public:
  // `topology` must outlive the back end.
  HopBackend(const Topology& topology, const BackendOptions& options);

  absl::StatusOr<std::unique_ptr<Exchange>> Connect(const View& view, const Ended& ended,
                                                    absl::optional<Incarnation>* suspect) override;
  std::vector<grpc::Service*> services() override { return {&service_}; }

 private:
  class Connected;  // the exchange; it removes itself from here when it is destroyed

  bool Knows(const NeighborStream& stream) override;
  absl::Status OnChunk(const NeighborStream& stream, Chunk chunk) override;
  void OnEnd(const NeighborStream& stream, const absl::Status& status) override;
  // Returns the exchange of the chunk's view, after waiting if that is a future view, or of a later
  // view; end its use with Return.
  absl::StatusOr<HopExchange*> Borrow(const NeighborStream& stream, const ChunkHeader& chunk);
  bool IsToCome(const ChunkHeader& chunk) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Return();
  // Waits until no chunk is being passed to it.
  void Forget();

  const Topology& topology_;
  const BackendOptions options_;
  NeighborService service_;

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
