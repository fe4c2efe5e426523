#ifndef GRADWIRE_WORKER_BACKENDS_HOPS_NEIGHBOR_SENDER_H_
#define GRADWIRE_WORKER_BACKENDS_HOPS_NEIGHBOR_SENDER_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/rpc/call_context.h"
#include "gradwire/v1/neighbor.grpc.pb.h"
#include "worker/backends/backend.h"

namespace gradwire {

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

#endif  // GRADWIRE_WORKER_BACKENDS_HOPS_NEIGHBOR_SENDER_H_
