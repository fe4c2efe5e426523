#include "worker/backends/ring/neighbor_service.h"

#include <grpcpp/impl/codegen/method_handler.h>
#include <grpcpp/impl/codegen/rpc_service_method.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_util.h"
#include "common/wire/chunk_codec.h"

namespace gradwire {

// Registered by hand, as in coordinator/aggregation_service.cc, for byte buffers.
NeighborService::NeighborService(OnChunk on_chunk, OnEnd on_end)
    : on_chunk_(std::move(on_chunk)), on_end_(std::move(on_end)) {
  using Handler =
      grpc::internal::BidiStreamingHandler<NeighborService, grpc::ByteBuffer, v1::NeighborReply>;
  AddMethod(new grpc::internal::RpcServiceMethod(
      "/gradwire.v1.Neighbor/Stream", grpc::internal::RpcMethod::BIDI_STREAMING,
      new Handler([](NeighborService* service, grpc::ServerContext* context,
                     Stream* stream) { return service->Serve(context, stream); },
                  this)));
}

grpc::Status NeighborService::Serve(grpc::ServerContext* context, Stream* stream) {
  bool taken = false;
  absl::Status status = TakeAll(stream, &taken);
  const bool broke = context->IsCancelled();
  if (status.ok() && broke) {
    status = absl::UnavailableError(absl::StrCat("its stream from ", context->peer(), " broke"));
  }
  if (taken) {
    on_end_(status);
  } else if (!status.ok() && !broke) {
    spdlog::warn("refused a stream from {}: {}", context->peer(), status.ToString());
  }
  return ToGrpc(status);
}

absl::Status NeighborService::TakeAll(Stream* stream, bool* taken) {
  grpc::ByteBuffer buffer;
  while (stream->Read(&buffer)) {
    absl::StatusOr<Chunk> chunk = DecodeChunk(&buffer);
    buffer.Clear();
    if (!chunk.ok()) return chunk.status();
    if (absl::Status status = on_chunk_(*std::move(chunk)); !status.ok()) return status;
    *taken = true;
  }
  return absl::OkStatus();
}

}  // namespace gradwire
