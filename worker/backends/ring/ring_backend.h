#ifndef GRADWIRE_WORKER_BACKENDS_RING_RING_BACKEND_H_
#define GRADWIRE_WORKER_BACKENDS_RING_RING_BACKEND_H_

#include <memory>

#include "common/base/mutex.h"
#include "worker/backends/backend.h"
#include "worker/backends/ring/neighbor_service.h"
#include "worker/backends/ring/ring_exchange.h"

namespace gradwire {

// Ring all-reduce between neighbours; see RingExchange. Serves v1.Neighbor, whose chunks
// go to the exchange of the view.
class RingBackend : public Backend, private ChunkHandler {
 public:
  explicit RingBackend(v1::DType wire);

  absl::StatusOr<std::unique_ptr<Exchange>> Connect(const View& view, const Ended& ended,
                                                    absl::optional<Incarnation>* suspect) override;
  std::vector<grpc::Service*> services() override { return {&service_}; }

 private:
  class Connected;  // the exchange, which takes itself out of here when it goes

  absl::Status OnChunk(const LeftStream& stream, Chunk chunk) override;
  void OnEnd(const LeftStream& stream, const absl::Status& status) override;
  // The exchange of the view, waiting for it; to be given back by Return.
  absl::StatusOr<RingExchange*> Borrow(const LeftStream& stream);
  void Return();
  // Waits until no chunk is being handed to it.
  void Forget();

  const v1::DType wire_;
  NeighborService service_;

  Mutex mutex_;
  CondVar changed_;
  RingExchange* exchange_ ABSL_GUARDED_BY(mutex_) = nullptr;  // of the view; null: none yet
  int using_ ABSL_GUARDED_BY(mutex_) = 0;                     // calls into it
};

absl::StatusOr<std::unique_ptr<Backend>> MakeRingBackend(const BackendOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_RING_RING_BACKEND_H_
