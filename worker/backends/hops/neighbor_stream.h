#ifndef GRADWIRE_WORKER_BACKENDS_HOPS_NEIGHBOR_STREAM_H_
#define GRADWIRE_WORKER_BACKENDS_HOPS_NEIGHBOR_STREAM_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "common/rpc/call_guard.h"
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

// Names one call of Neighbor.Stream; numbers are never used twice.
using StreamId = StrongInt<struct StreamIdTag, uint64_t>;

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
