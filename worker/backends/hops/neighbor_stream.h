#ifndef GRADWIRE_WORKER_BACKENDS_HOPS_NEIGHBOR_STREAM_H_
#define GRADWIRE_WORKER_BACKENDS_HOPS_NEIGHBOR_STREAM_H_

#include <grpcpp/channel.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "common/rpc/call_guard.h"
#include "common/rpc/caller.h"
#include "common/wire/chunk.h"
#include "common/wire/view.h"
#include "gradwire/v1/neighbor.grpc.pb.h"
#include "worker/backends/backend.h"
#include "worker/backends/exchange.h"

namespace gradwire {

// Chunks that arrived too early: before their bucket was expected, their receiver had contributed
// its terms, or earlier parts of the sum had arrived. Keeps the chunks of each hop in order of
// arrival. A hop is held from its first chunk until Next finds that all were taken; meanwhile its
// later chunks queue here too. Not thread-safe.
class EarlyChunks {
 public:
  // One hop of a bucket.
  struct Key {
    BucketKey bucket;
    Rank receiver;
    int receive = 0;  // index among the receiver's receives; see RankPlan

    friend bool operator<(const Key& a, const Key& b) {
      return std::tie(a.bucket, a.receiver, a.receive) < std::tie(b.bucket, b.receiver, b.receive);
    }
  };

  bool Holds(const Key& key) const { return held_.count(key) > 0; }
  // Bytes of all chunks of `key` since it is held.
  uint64_t Bytes(const Key& key) const;

  // Returns InvalidArgument, and keeps nothing, if `key` would have more than `most_bytes`.
  absl::Status Keep(const Key& key, Chunk chunk, uint64_t most_bytes);

  // Returns a key and its next chunk, if that `is_ready`. The previous result of Next has been
  // taken.
  using IsReady = std::function<bool(const Key&, const Chunk&)>;
  absl::optional<std::pair<Key, Chunk>> Next(const IsReady& is_ready);

  // Returns the lowest step of a layout with a waiting chunk.
  absl::optional<Step> FirstStep(LayoutId layout) const;

  void Clear() { held_.clear(); }

 private:
  struct Held {
    std::deque<Chunk> chunks;
    uint64_t bytes = 0;
  };
  std::map<Key, Held> held_;
};

// One call of Neighbor.Stream; numbers are never used twice.
using StreamId = StrongInt<struct StreamIdTag, uint64_t>;
struct NeighborStream {
  StreamId id;
  std::function<bool()> is_gone;               // whether the call was cancelled
  std::function<bool(const View&)> is_member;  // whether its caller is in a view
  Authority* authority;                        // what its caller may do; only for its own thread
};

// Gets the chunks of NeighborService, on the stream's own thread.
class ChunkHandler {
 public:
  virtual ~ChunkHandler() = default;
  // Whether the caller is a member of the run. Blocks while there is no view.
  virtual bool Knows(const NeighborStream& stream) = 0;
  // Takes a chunk. May block while there is no view: flow control then holds the sender back. An
  // error ends the stream with it.
  virtual absl::Status OnChunk(const NeighborStream& stream, Chunk chunk) = 0;
  // A stream of which a chunk was taken has ended; OK if the sender half-closed it. (A stranger
  // whose first chunk is refused does not disturb the run.)
  virtual void OnEnd(const NeighborStream& stream, const absl::Status& status) = 0;
};

// Serves v1.Neighbor (see neighbor.proto): passes every chunk to a handler, which must outlive it.
// Ends a stream of a stranger if no chunk of it is taken within a second.
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

// A stream from a rank of this worker to a rank of another. For one thread, except Cancel.
class NeighborSender {
 public:
  // Connects, and blocks until the neighbor answers; errors as in WaitConnected. `name` is for
  // messages; `self` is this worker.
  static absl::StatusOr<std::unique_ptr<NeighborSender>> Connect(const std::string& address,
                                                                 const std::string& name,
                                                                 Incarnation self,
                                                                 const Backend::Ended& ended,
                                                                 const Security& security);

  // If not OK: how the neighbor ended the stream; Unavailable if it cannot be reached.
  absl::Status Write(const grpc::ByteBuffer& message);
  // Half-closes the stream, and waits until the neighbor ends it.
  absl::Status Close();
  void Cancel() { context_.Cancel(); }

 private:
  NeighborSender(std::shared_ptr<grpc::Channel> channel, Incarnation self);
  // Returns how the neighbor ended the stream, which is then over.
  absl::Status Finish();

  const std::shared_ptr<grpc::Channel> channel_;
  CallContext context_;
  // Null once the stream is over.
  std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, v1::NeighborReply>> stream_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_HOPS_NEIGHBOR_STREAM_H_
