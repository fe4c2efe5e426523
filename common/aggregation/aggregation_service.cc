#include "common/aggregation/aggregation_service.h"

#include <grpcpp/impl/codegen/method_handler.h>
#include <grpcpp/impl/codegen/rpc_service_method.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_util.h"
#include "common/rpc/caller.h"
#include "common/rpc/channel.h"
#include "common/wire/chunk_codec.h"
#include "common/wire/slice_lender.h"

namespace gradwire {
namespace {

// How often a waiting call checks whether its caller still exists.
constexpr absl::Duration kLookSlice = absl::Milliseconds(100);
// A peer may receive its view a moment earlier than this side.
constexpr absl::Duration kViewTimeout = absl::Seconds(10);
// Limit for the first chunk of a caller that is not a member.
constexpr absl::Duration kPatience = absl::Seconds(1);

}  // namespace

class AggregationService::CountedCall {
 public:
  explicit CountedCall(AggregationService* service) : service_(service) {}
  ~CountedCall() {
    if (counts_) service_->CountCall(-1);
  }
  CountedCall(const CountedCall&) = delete;
  CountedCall& operator=(const CountedCall&) = delete;

  void Begin() {
    if (!std::exchange(counts_, true)) service_->CountCall(1);
  }

 private:
  AggregationService* const service_;
  bool counts_ = false;
};

// The methods are registered by hand, like in generated code, because generated synchronous code
// supports only messages, not byte buffers.
AggregationService::AggregationService(AggregationObserver observer, MakeCallMemory make_memory)
    : observer_(std::move(observer)), make_memory_(std::move(make_memory)), guard_(kPatience) {
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
          [](AggregationService* service, grpc::ServerContext* context,
             const v1::MissingRequest* request,
             v1::MissingReply* reply) { return service->Missing(*context, *request, reply); },
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

void AggregationService::Serve(std::shared_ptr<Aggregator> aggregator) {
  MutexLock lock(&mutex_);
  aggregator_ = std::move(aggregator);
  changed_.NotifyAll();
}

void AggregationService::Abort(const absl::Status& reason) {
  std::shared_ptr<Aggregator> aggregator;
  {
    MutexLock lock(&mutex_);
    if (aborted_.ok()) aborted_ = reason;
    aggregator = aggregator_;
    changed_.NotifyAll();
  }
  if (aggregator != nullptr) aggregator->Abort(reason);
}

bool AggregationService::IsToCome(const RunId& run_id, Generation generation) const {
  if (aggregator_ == nullptr) return true;
  const View& view = aggregator_->view();
  return run_id == view.run_id && view.generation < generation;
}

absl::StatusOr<std::shared_ptr<Aggregator>> AggregationService::WaitForAggregator(
    const grpc::ServerContext& context, const RunId& run_id, Generation generation) {
  const absl::Time deadline = SteadyNow() + kViewTimeout;
  MutexLock lock(&mutex_);
  while (aborted_.ok() && IsToCome(run_id, generation)) {
    changed_.WaitWithDeadline(&mutex_, SteadyNow() + kLookSlice);
    if (context.IsCancelled()) return absl::CancelledError("the caller is gone");
    // A member gives up by its own deadline; an aggregator that computes for long learns of a view
    // late.
    const bool may_stay = aggregator_ != nullptr && IsMember(context, aggregator_->view());
    if (may_stay || SteadyNow() < deadline) continue;
    if (aggregator_ != nullptr) return aggregator_;  // its check reports the expected view
    return absl::DeadlineExceededError(
        absl::StrCat("the run did not begin here within ", absl::FormatDuration(kViewTimeout)));
  }
  if (!aborted_.ok()) return aborted_;
  return aggregator_;
}

template <typename Request>
absl::StatusOr<std::shared_ptr<Aggregator>> AggregationService::AggregatorFor(
    const grpc::ServerContext& context, const Request& request) {
  const absl::StatusOr<RunId> run_id = RunIdFromBytes(request.run_id());
  if (!run_id.ok()) return run_id.status();
  absl::StatusOr<std::shared_ptr<Aggregator>> aggregator =
      WaitForAggregator(context, *run_id, Generation(request.generation()));
  if (!aggregator.ok()) return aggregator;
  absl::Status checked = (*aggregator)
                             ->CheckReader(*run_id, CoordinatorEpoch(request.epoch()),
                                           Generation(request.generation()));
  if (!checked.ok()) return checked;
  return aggregator;
}

grpc::Status AggregationService::Gather(grpc::ServerContext* context,
                                        grpc::ServerReader<grpc::ByteBuffer>* reader,
                                        v1::GatherReply* reply) {
  return Report(TakeAll(context, reader, reply));
}

absl::StatusOr<Verdict> AggregationService::Take(Aggregator* aggregator, CallMemory* memory,
                                                 Chunk chunk) {
  const ChunkHeader& header = chunk.header;
  if (header.slot == 0) {
    if (observer_.on_received) observer_.on_received(TotalBytes(chunk.payload));
    return aggregator->Add(std::move(chunk));
  }
  if (memory == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("chunk of ", ToString(header), ": got slot ",
                                                   header.slot, ", expected a payload"));
  }
  const View& view = aggregator->view();
  // Only of this view can a slot be found; the aggregator drops or refuses the others.
  const bool is_of_view = header.run_id == view.run_id && header.epoch == view.epoch &&
                          header.generation == view.generation;
  if (is_of_view) {
    const Member* from =
        header.rank.value() < view.world_size ? &view.Carrier(header.rank) : nullptr;
    if (absl::Status found = memory->Find(view, from, &chunk); !found.ok()) return found;
  }
  return aggregator->AddOwn(std::move(chunk));
}

absl::Status AggregationService::TakeAll(grpc::ServerContext* context,
                                         grpc::ServerReader<grpc::ByteBuffer>* reader,
                                         v1::GatherReply* reply) {
  // A member of a later view is a member of this one.
  const auto current = WaitForAggregator(*context, RunId{}, Generation(0));
  if (!current.ok()) return current.status();
  CountedCall call(this);
  CallGuard::Watch watch(&guard_, context);
  const auto trust = [&call, &watch] {
    call.Begin();
    watch.Trust();
  };
  if (IsMember(*context, (*current)->view())) trust();
  Authority authority(context);
  const auto memory = make_memory_ ? make_memory_() : nullptr;
  std::shared_ptr<Aggregator> aggregator;  // of the view of the first chunk
  grpc::ByteBuffer buffer;
  while (reader->Read(&buffer)) {
    absl::StatusOr<Chunk> chunk = DecodeChunk(&buffer);
    if (!chunk.ok()) return chunk.status();
    buffer.Clear();
    if (aggregator == nullptr) {
      auto found = WaitForAggregator(*context, chunk->header.run_id, chunk->header.generation);
      if (!found.ok()) return found.status();
      aggregator = *std::move(found);
    }
    const ChunkHeader& header = chunk->header;
    absl::Status may = authority.Check(aggregator->view(), header.generation, header.rank);
    if (!may.ok()) return may;
    absl::StatusOr<Verdict> verdict = Take(aggregator.get(), memory.get(), *std::move(chunk));
    if (!verdict.ok()) return verdict.status();
    if (*verdict == Verdict::kAccept) {
      trust();
      reply->set_chunks_accepted(reply->chunks_accepted() + 1);
    } else {
      reply->set_chunks_ignored(reply->chunks_ignored() + 1);
    }
  }
  return absl::OkStatus();
}

grpc::Status AggregationService::Scatter(grpc::ServerContext* context,
                                         const v1::ScatterRequest* request, MeanWriter* writer) {
  const absl::Status status = SendAll(context, *request, writer);
  // A reader that needs no more data cancels.
  return absl::IsCancelled(status) ? ToGrpc(status) : Report(status);
}

absl::Status AggregationService::SendAll(grpc::ServerContext* context,
                                         const v1::ScatterRequest& request, MeanWriter* writer) {
  const uint32_t lanes = std::max(1u, request.lanes());
  if (request.lane() >= lanes) {
    return absl::InvalidArgumentError(
        absl::StrCat("Scatter: got lane ", request.lane(), ", expected a lane below ", lanes));
  }
  absl::StatusOr<std::shared_ptr<Aggregator>> aggregator = AggregatorFor(*context, request);
  if (!aggregator.ok()) return aggregator.status();
  CountedCall call(this);
  if (IsMember(*context, (*aggregator)->view())) call.Begin();
  MeanCursor cursor;
  cursor.reader = Incarnation(request.incarnation());
  cursor.lane = request.lane();
  cursor.lanes = lanes;
  cursor.by_bucket = request.by_bucket();
  if (absl::Status own = CheckReader(*context, (*aggregator)->view(), cursor.reader); !own.ok()) {
    return own;
  }
  const auto memory = make_memory_ ? make_memory_() : nullptr;
  const auto leave = absl::MakeCleanup([&] { (*aggregator)->Leave(&cursor); });
  while (true) {
    absl::StatusOr<Mean> mean = (*aggregator)->Next(&cursor, SteadyNow() + kLookSlice);
    if (absl::IsDeadlineExceeded(mean.status())) {
      if (!context->IsCancelled()) continue;
      return absl::CancelledError("the receiver of means is gone");
    }
    if (!mean.ok()) return mean.status();
    const MeanChunk& chunk = *mean->chunk;
    if (!cursor.Wants(mean->header.bucket, chunk.number_in_shard)) continue;
    const bool in_memory =
        memory != nullptr && memory->Put((*aggregator)->view(), cursor.reader,
                                         {chunk.data.get(), chunk.bytes}, &mean->header);
    std::vector<grpc::Slice> payload;
    if (!in_memory) payload.push_back(SliceOwnedBy(mean->chunk, chunk.data.get(), chunk.bytes));
    if (!writer->Write(EncodeChunk(mean->header, std::move(payload)))) {
      return absl::CancelledError("the receiver of means is gone");
    }
    if (!in_memory && observer_.on_sent) observer_.on_sent(chunk.bytes);
  }
}

grpc::Status AggregationService::Missing(const grpc::ServerContext& context,
                                         const v1::MissingRequest& request,
                                         v1::MissingReply* reply) {
  absl::StatusOr<std::shared_ptr<Aggregator>> aggregator = AggregatorFor(context, request);
  if (!aggregator.ok()) return Report(aggregator.status());
  const LayoutId layout(static_cast<int>(request.layout()));
  for (Rank rank : (*aggregator)->MissingRanks(layout, Step(request.step()))) {
    reply->add_ranks(rank.value());
  }
  return grpc::Status::OK;
}

}  // namespace gradwire
