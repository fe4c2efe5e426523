#include "worker/backends/hops/neighbor_stream.h"

#include <grpcpp/impl/codegen/rpc_method.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_util.h"
#include "common/rpc/channel.h"

namespace gradwire {

uint64_t EarlyChunks::Bytes(const Key& key) const {
  const auto found = held_.find(key);
  return found == held_.end() ? 0 : found->second.bytes;
}

absl::Status EarlyChunks::Keep(const Key& key, Chunk chunk, uint64_t most_bytes) {
  const uint64_t bytes = Bytes(key) + TotalBytes(chunk.payload);
  if (bytes > most_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("chunk of ", ToString(chunk.header), ": got ",
                                                   bytes, " bytes of this hop, expected at most ",
                                                   most_bytes));
  }
  Held& held = held_[key];
  held.bytes = bytes;
  held.chunks.push_back(std::move(chunk));
  return absl::OkStatus();
}

absl::optional<std::pair<EarlyChunks::Key, Chunk>> EarlyChunks::Next(const IsReady& is_ready) {
  for (auto it = held_.begin(); it != held_.end();) {
    std::deque<Chunk>& chunks = it->second.chunks;
    if (chunks.empty()) {
      it = held_.erase(it);
    } else if (!is_ready(it->first, chunks.front())) {
      ++it;
    } else {
      std::pair<Key, Chunk> next{it->first, std::move(chunks.front())};
      chunks.pop_front();
      return next;
    }
  }
  return absl::nullopt;
}

absl::optional<Step> EarlyChunks::FirstStep(LayoutId layout) const {
  for (const auto& [key, held] : held_) {
    if (key.bucket.layout == layout && !held.chunks.empty()) return key.bucket.step;
  }
  return absl::nullopt;
}

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
  return status.ok() ? absl::UnavailableError("the neighbor ended the stream") : status;
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
