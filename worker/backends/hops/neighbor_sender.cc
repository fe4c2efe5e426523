#include "worker/backends/hops/neighbor_sender.h"

#include <grpcpp/impl/codegen/rpc_method.h>

#include <utility>

#include "absl/memory/memory.h"
#include "common/base/status_util.h"
#include "common/rpc/channel.h"

namespace gradwire {

absl::StatusOr<std::unique_ptr<NeighborSender>> NeighborSender::Connect(const std::string& address,
                                                                        const std::string& name,
                                                                        Incarnation self,
                                                                        const Backend::Ended& ended,
                                                                        const Security& security) {
  std::shared_ptr<grpc::Channel> channel = MakeChannel(address, security);
  absl::Status connected = WaitConnected(channel.get(), name, ended);
  if (!connected.ok()) return connected;
  return absl::WrapUnique(new NeighborSender(std::move(channel), self));
}

NeighborSender::NeighborSender(std::shared_ptr<grpc::Channel> channel, Incarnation self)
    : channel_(std::move(channel)), context_(self) {
  const grpc::internal::RpcMethod method("/gradwire.v1.Neighbor/Stream",
                                         grpc::internal::RpcMethod::BIDI_STREAMING, channel_);
  stream_.reset(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, v1::NeighborReply>::Create(
          channel_.get(), method, context_.get()));
}

absl::Status NeighborSender::Write(const grpc::ByteBuffer& message) {
  if (stream_ == nullptr) return absl::UnavailableError("the stream is over");
  if (stream_->Write(message)) return absl::OkStatus();
  const absl::Status status = Finish();
  return status.ok() ? absl::UnavailableError("it ended the stream") : status;
}

absl::Status NeighborSender::Close() {
  if (stream_ == nullptr) return absl::OkStatus();
  stream_->WritesDone();
  return Finish();
}

absl::Status NeighborSender::Finish() {
  const absl::Status status = FromGrpc(stream_->Finish());
  stream_.reset();
  context_.Release();
  return status;
}

}  // namespace gradwire
