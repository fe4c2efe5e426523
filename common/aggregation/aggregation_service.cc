#include "common/aggregation/aggregation_service.h"

#include <grpcpp/impl/codegen/method_handler.h>
#include <grpcpp/impl/codegen/rpc_service_method.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "common/wire/chunk_codec.h"
#include "common/wire/slice_lender.h"
#include "common/base/status_util.h"

namespace gradwire {
namespace {

// How often a waiting call looks whether its caller is still there.
constexpr absl::Duration kLookSlice = absl::Milliseconds(100);
// A peer may have its view a moment earlier than this side.
constexpr absl::Duration kRunTimeout = absl::Seconds(10);

}  // namespace

// The methods are registered by hand, as generated code does it, because
// generated sync code knows messages only, not byte buffers.
AggregationService::AggregationService(Aggregator* aggregator, AggregationObserver observer)
    : aggregator_(aggregator), observer_(std::move(observer)) {
  using grpc::internal::RpcMethod;
  using grpc::internal::RpcServiceMethod;
  using GatherHandler =
      grpc::internal::ClientStreamingHandler<AggregationService, grpc::ByteBuffer, v1::GatherReply>;
  using ScatterHandler =
      grpc::internal::ServerStreamingHandler<AggregationService, v1::ScatterRequest,
                                             grpc::ByteBuffer>;
  using MissingHandler =
      grpc::internal::RpcMethodHandler<AggregationService, v1::MissingRequest, v1::MissingReply>;
  AddMethod(new RpcServiceMethod(
      "/gradwire.v1.Aggregation/Gather", RpcMethod::CLIENT_STREAMING,
      new GatherHandler(
          [](AggregationService* service, grpc::ServerContext* context,
             grpc::ServerReader<grpc::ByteBuffer>* reader,
             v1::GatherReply* reply) { return service->Gather(context, reader, reply); },
          this)));
  AddMethod(new RpcServiceMethod("/gradwire.v1.Aggregation/Scatter", RpcMethod::SERVER_STREAMING,
                                 new ScatterHandler(
                                     [](AggregationService* service, grpc::ServerContext* context,
                                        const v1::ScatterRequest* request, MeanWriter* writer) {
                                       return service->Scatter(context, request, writer);
                                     },
                                     this)));
  AddMethod(new RpcServiceMethod(
      "/gradwire.v1.Aggregation/Missing", RpcMethod::NORMAL_RPC,
      new MissingHandler(
          [](AggregationService* service, grpc::ServerContext*, const v1::MissingRequest* request,
             v1::MissingReply* reply) { return service->Missing(request, reply); },
          this)));
}

void AggregationService::CountCall(int change) {
  MutexLock lock(&mutex_);
  open_calls_ += change;
  if (open_calls_ == 0) changed_.NotifyAll();
}

bool AggregationService::WaitUntilIdle(absl::Time deadline) {
  MutexLock lock(&mutex_);
  while (open_calls_ > 0) {
    if (changed_.WaitWithDeadline(&mutex_, deadline)) return open_calls_ == 0;
  }
  return true;
}

grpc::Status AggregationService::Report(const absl::Status& status) {
  if (!status.ok() && observer_.on_error) observer_.on_error(status.code());
  return ToGrpc(status);
}

absl::Status AggregationService::WaitForRun(grpc::ServerContext* context) {
  const absl::Time deadline =
      std::min(absl::Now() + kRunTimeout, absl::FromChrono(context->deadline()) - kAnswerMargin);
  return aggregator_->WaitUntilConfigured(deadline);
}

grpc::Status AggregationService::Gather(grpc::ServerContext* context,
                                        grpc::ServerReader<grpc::ByteBuffer>* reader,
                                        v1::GatherReply* reply) {
  CountCall(1);
  const absl::Status status = TakeAll(context, reader, reply);
  CountCall(-1);
  return Report(status);
}

absl::Status AggregationService::TakeAll(grpc::ServerContext* context,
                                         grpc::ServerReader<grpc::ByteBuffer>* reader,
                                         v1::GatherReply* reply) {
  if (absl::Status run = WaitForRun(context); !run.ok()) return run;
  grpc::ByteBuffer buffer;
  while (reader->Read(&buffer)) {
    absl::StatusOr<Chunk> chunk = DecodeChunk(&buffer);
    if (!chunk.ok()) return chunk.status();
    buffer.Clear();
    if (observer_.on_received) observer_.on_received(TotalBytes(chunk->payload));
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
                                         const v1::ScatterRequest* request, MeanWriter* writer) {
  CountCall(1);
  const absl::Status status = SendAll(context, *request, writer);
  CountCall(-1);
  // A reader without an end goes away when it has had enough.
  if (absl::IsCancelled(status) && request->steps() == 0) return ToGrpc(status);
  return Report(status);
}

absl::Status AggregationService::SendAll(grpc::ServerContext* context,
                                         const v1::ScatterRequest& request, MeanWriter* writer) {
  const absl::StatusOr<RunId> run_id = RunIdFromBytes(request.run_id());
  if (!run_id.ok()) return run_id.status();
  if (absl::Status run = WaitForRun(context); !run.ok()) return run;
  absl::Status checked = aggregator_->CheckReader(*run_id, CoordinatorEpoch(request.epoch()),
                                                  Generation(request.generation()));
  if (!checked.ok()) return checked;
  Reader reader{Step(request.step()), request.steps(), request.lane(),
                std::max(1u, request.lanes()),
                absl::FromChrono(context->deadline()) - kAnswerMargin};
  if (reader.lane >= reader.lanes) {
    return absl::InvalidArgumentError(
        absl::StrCat("Scatter: got lane ", reader.lane, ", expected one below ", reader.lanes));
  }
  while (true) {
    if (absl::Status sent = SendStep(context, reader, writer); !sent.ok()) return sent;
    if (reader.steps_left > 0 && --reader.steps_left == 0) return absl::OkStatus();
    reader.step = Step(reader.step.value() + 1);
    reader.continues = true;
  }
}

absl::StatusOr<std::shared_ptr<const MeanChunk>> AggregationService::WaitForMean(
    grpc::ServerContext* context, const Reader& reader, size_t index) {
  while (true) {
    const absl::Time slice = absl::Now() + kLookSlice;
    auto mean = aggregator_->Next(reader.step, index, std::min(reader.deadline, slice),
                                  index > 0 || reader.continues);
    if (!absl::IsDeadlineExceeded(mean.status()) || reader.deadline <= slice) return mean;
    if (context->IsCancelled()) return absl::CancelledError("the receiver went away");
  }
}

absl::Status AggregationService::SendStep(grpc::ServerContext* context, const Reader& reader,
                                          MeanWriter* writer) {
  for (size_t index = 0;; ++index) {
    absl::StatusOr<std::shared_ptr<const MeanChunk>> found = WaitForMean(context, reader, index);
    if (!found.ok()) return found.status();
    const std::shared_ptr<const MeanChunk>& mean = *found;
    if (mean == nullptr) return absl::OkStatus();
    if (mean->number_in_share % reader.lanes != reader.lane) continue;
    grpc::Slice payload = SliceOwnedBy(mean, mean->data.get(), mean->bytes);
    const ChunkHeader header = aggregator_->HeaderFor(reader.step, *mean);
    if (!writer->Write(EncodeChunk(header, std::move(payload)))) {
      return absl::CancelledError(
          absl::StrCat("step ", reader.step.value(), ": the receiver of the mean went away"));
    }
    if (observer_.on_sent) observer_.on_sent(mean->bytes);
  }
}

grpc::Status AggregationService::Missing(const v1::MissingRequest* request,
                                         v1::MissingReply* reply) {
  const absl::StatusOr<RunId> run_id = RunIdFromBytes(request->run_id());
  if (!run_id.ok()) return Report(run_id.status());
  absl::Status checked = aggregator_->CheckReader(*run_id, CoordinatorEpoch(request->epoch()),
                                                  Generation(request->generation()));
  if (!checked.ok()) return Report(checked);
  for (Rank rank : aggregator_->MissingRanks(Step(request->step()))) {
    reply->add_ranks(rank.value());
  }
  return grpc::Status::OK;
}

}  // namespace gradwire
