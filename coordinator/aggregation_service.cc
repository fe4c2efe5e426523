#include "coordinator/aggregation_service.h"

#include <grpcpp/impl/codegen/method_handler.h>
#include <grpcpp/impl/codegen/rpc_service_method.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/channel.h"
#include "common/chunk_codec.h"
#include "common/slice_lender.h"
#include "common/status_util.h"

namespace gradwire {

// The methods are registered by hand, as generated code does it, because
// generated sync code knows messages only, not byte buffers.
AggregationService::AggregationService(Aggregator* aggregator, CoordinatorMetrics* metrics)
    : aggregator_(aggregator), metrics_(metrics) {
  using grpc::internal::RpcMethod;
  using grpc::internal::RpcServiceMethod;
  using GatherHandler =
      grpc::internal::ClientStreamingHandler<AggregationService, grpc::ByteBuffer, v1::GatherReply>;
  using ScatterHandler =
      grpc::internal::ServerStreamingHandler<AggregationService, v1::ScatterRequest,
                                             grpc::ByteBuffer>;
  AddMethod(new RpcServiceMethod(
      "/gradwire.v1.Aggregation/Gather", RpcMethod::CLIENT_STREAMING,
      new GatherHandler(
          [](AggregationService* service, grpc::ServerContext* context,
             grpc::ServerReader<grpc::ByteBuffer>* reader,
             v1::GatherReply* reply) { return service->Gather(context, reader, reply); },
          this)));
  AddMethod(new RpcServiceMethod(
      "/gradwire.v1.Aggregation/Scatter", RpcMethod::SERVER_STREAMING,
      new ScatterHandler(
          [](AggregationService* service, grpc::ServerContext* context,
             const v1::ScatterRequest* request, grpc::ServerWriter<grpc::ByteBuffer>* writer) {
            return service->Scatter(context, request, writer);
          },
          this)));
}

grpc::Status AggregationService::Report(const absl::Status& status) {
  if (!status.ok()) metrics_->CountRpcError(status.code());
  return ToGrpc(status);
}

grpc::Status AggregationService::Gather(grpc::ServerContext*,
                                        grpc::ServerReader<grpc::ByteBuffer>* reader,
                                        v1::GatherReply* reply) {
  return Report(TakeAll(reader, reply));
}

absl::Status AggregationService::TakeAll(grpc::ServerReader<grpc::ByteBuffer>* reader,
                                         v1::GatherReply* reply) {
  grpc::ByteBuffer buffer;
  while (reader->Read(&buffer)) {
    absl::StatusOr<Chunk> chunk = DecodeChunk(&buffer);
    if (!chunk.ok()) return chunk.status();
    buffer.Clear();
    metrics_->CountReceived(TotalBytes(chunk->payload));
    absl::StatusOr<Verdict> verdict = aggregator_->Add(*std::move(chunk));
    if (!verdict.ok()) return verdict.status();
    if (*verdict == Verdict::kAccept) {
      reply->set_chunks_accepted(reply->chunks_accepted() + 1);
    } else {
      reply->set_chunks_ignored(reply->chunks_ignored() + 1);
    }
  }
  return absl::OkStatus();
}

grpc::Status AggregationService::Scatter(grpc::ServerContext* context,
                                         const v1::ScatterRequest* request,
                                         grpc::ServerWriter<grpc::ByteBuffer>* writer) {
  const absl::Time deadline = absl::FromChrono(context->deadline()) - kAnswerMargin;
  const absl::StatusOr<RunId> run_id = RunIdFromBytes(request->run_id());
  if (!run_id.ok()) return Report(run_id.status());
  const absl::Status reader = aggregator_->CheckReader(*run_id, CoordinatorEpoch(request->epoch()),
                                                       Generation(request->generation()));
  if (!reader.ok()) return Report(reader);
  return Report(SendAll(Step(request->step()), deadline, writer));
}

absl::Status AggregationService::SendAll(Step step, absl::Time deadline,
                                         grpc::ServerWriter<grpc::ByteBuffer>* writer) {
  for (size_t index = 0;; ++index) {
    absl::StatusOr<std::shared_ptr<const MeanChunk>> mean =
        aggregator_->Next(step, index, deadline);
    if (!mean.ok()) return mean.status();
    if (*mean == nullptr) return absl::OkStatus();
    grpc::Slice payload = SliceOwnedBy(*mean, (*mean)->data(), (*mean)->bytes);
    const ChunkHeader header = aggregator_->HeaderFor(step, **mean);
    if (!writer->Write(EncodeChunk(header, std::move(payload)))) {
      return absl::CancelledError(
          absl::StrCat("step ", step.value(), ": the receiver of the mean went away"));
    }
    metrics_->CountSent((*mean)->bytes);
  }
}

}  // namespace gradwire
