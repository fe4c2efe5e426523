#ifndef GRADWIRE_WORKER_BACKENDS_RING_NEIGHBOR_SERVICE_H_
#define GRADWIRE_WORKER_BACKENDS_RING_NEIGHBOR_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include <functional>

#include "absl/status/status.h"
#include "common/wire/chunk.h"
#include "gradwire/v1/neighbor.grpc.pb.h"

namespace gradwire {

// Serves v1.Neighbor (see neighbor.proto): hands every chunk to a handler, on
// the stream's own thread of gRPC's.
class NeighborService : public grpc::Service {
 public:
  // May block, as long as there is no view: the sender is then held back by flow
  // control. An error ends the stream with it.
  using OnChunk = std::function<absl::Status(Chunk chunk)>;
  // A stream of which a chunk was taken ended; OK if the sender half-closed it.
  // (A stranger whose first chunk is refused does not disturb the run.)
  using OnEnd = std::function<void(absl::Status)>;

  NeighborService(OnChunk on_chunk, OnEnd on_end);

 private:
  using Stream = grpc::ServerReaderWriter<v1::NeighborReply, grpc::ByteBuffer>;
  grpc::Status Serve(grpc::ServerContext* context, Stream* stream);
  absl::Status TakeAll(Stream* stream, bool* taken);

  const OnChunk on_chunk_;
  const OnEnd on_end_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_RING_NEIGHBOR_SERVICE_H_
