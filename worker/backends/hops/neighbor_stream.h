#ifndef GRADWIRE_WORKER_BACKENDS_HOPS_NEIGHBOR_STREAM_H_
#define GRADWIRE_WORKER_BACKENDS_HOPS_NEIGHBOR_STREAM_H_

#include <grpcpp/channel.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/rpc/call_context.h"
#include "common/rpc/call_guard.h"
#include "common/rpc/caller.h"
#include "common/wire/chunk.h"
#include "common/wire/view.h"
#include "gradwire/v1/neighbor.grpc.pb.h"
#include "worker/backends/backend.h"

namespace gradwire {

// One call of Neighbor.Stream; numbers are never used twice.
using StreamId = StrongInt<struct StreamIdTag, uint64_t>;
struct NeighborStream {
  StreamId id;
  std::function<bool()> is_gone;               // whether the call was cancelled
  std::function<bool(const View&)> is_member;  // whether its caller is in a view
  Authority* authority;                        // what its caller may say; of its own thread
};

// Who takes what NeighborService gets; called on the stream's own thread.
class ChunkHandler {
 public:
  virtual ~ChunkHandler() = default;
  // Whether the caller is a member of the run. Blocks as long as there is no view.
  virtual bool Knows(const NeighborStream& stream) = 0;
  // May block, as long as there is no view: the sender is then held back by flow
  // control. An error ends the stream with it.
  virtual absl::Status OnChunk(const NeighborStream& stream, Chunk chunk) = 0;
  // A stream of which a chunk was taken ended; OK if the sender half-closed it.
  // (A stranger whose first chunk is refused does not disturb the run.)
  virtual void OnEnd(const NeighborStream& stream, const absl::Status& status) = 0;
};

// Serves v1.Neighbor (see neighbor.proto): hands every chunk to a handler, which outlives it. A
// stream of one who is no member is ended if no chunk of it is taken within a second.
class NeighborService : public grpc::Service {
 public:
  explicit NeighborService(ChunkHandler* handler);

 private:
  using Stream = grpc::ServerReaderWriter<v1::NeighborReply, grpc::ByteBuffer>;
  grpc::Status Serve(grpc::ServerContext* context, Stream* stream);
  absl::Status TakeAll(const NeighborStream& from, Stream* stream,
                       std::optional<CallGuard::Watch>* watch, bool* taken);

  ChunkHandler* const handler_;
  CallGuard guard_;
  std::atomic<uint64_t> last_id_{0};
};

// A stream from one rank of this worker to one of another. One thread uses it; Cancel may come from
// any.
class NeighborSender {
 public:
  // Connects, which takes until the neighbour answers; errors as WaitConnected. `name` is
  // for messages; `self` is this worker.
  static absl::StatusOr<std::unique_ptr<NeighborSender>> Connect(const std::string& address,
                                                                 const std::string& name,
                                                                 Incarnation self,
                                                                 const Backend::Ended& ended,
                                                                 const Security& security);

  // Not OK: how the neighbour ended the stream; Unavailable if it is out of reach.
  absl::Status Write(const grpc::ByteBuffer& message);
  // Half-closes, and waits for the neighbour's end.
  absl::Status Close();
  void Cancel() { context_.Cancel(); }

 private:
  NeighborSender(std::shared_ptr<grpc::Channel> channel, Incarnation self);
  // How the neighbour ended the stream, which is over then.
  absl::Status Finish();

  const std::shared_ptr<grpc::Channel> channel_;
  CallContext context_;
  // Null once it is over.
  std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, v1::NeighborReply>> stream_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_HOPS_NEIGHBOR_STREAM_H_
