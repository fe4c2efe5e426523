#include "worker/backends/coordinator_backend.h"

#include <grpcpp/impl/codegen/rpc_method.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/channel.h"
#include "common/chunk_codec.h"
#include "common/judge.h"
#include "common/status_util.h"
#include "gradwire/v1/aggregation.grpc.pb.h"

namespace gradwire {
namespace {

using grpc::internal::RpcMethod;

}  // namespace

CoordinatorBackend::CoordinatorBackend(const std::string& coordinator)
    : coordinator_(coordinator), channel_(MakeChannel(coordinator)) {}

CoordinatorBackend::~CoordinatorBackend() {
  Cancel(absl::CancelledError("the back end is shutting down"));
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  if (gather_thread_.joinable()) gather_thread_.join();
  if (scatter_thread_.joinable()) scatter_thread_.join();
}

absl::Status CoordinatorBackend::OnView(const View& view, std::vector<BucketSpec> buckets) {
  view_ = view;
  buckets_ = std::move(buckets);
  absl::Status connected =
      WaitConnected(channel_.get(), absl::StrCat("coordinator ", coordinator_), [this] {
        MutexLock lock(&mutex_);
        return cancelled_;
      });
  if (!connected.ok()) return connected;
  gather_thread_ = std::thread([this] { GatherLoop(); });
  scatter_thread_ = std::thread([this] { ScatterLoop(); });
  return absl::OkStatus();
}

void CoordinatorBackend::AllReduceAsync(const ReduceKey& key, absl::Span<const float> terms,
                                        absl::Span<float> mean, absl::Time deadline, Done done) {
  Submit(MakeReduce(key, terms, mean, deadline, std::move(done)));
}

void CoordinatorBackend::BroadcastAsync(const ReduceKey& key, absl::Span<uint8_t> bytes,
                                        absl::Time deadline, Done done) {
  Submit(MakeBroadcast(key, bytes, deadline, std::move(done)));
}

void CoordinatorBackend::Submit(Transfer transfer) {
  MutexLock lock(&mutex_);
  if (exchange_ == nullptr || exchange_->step != transfer.key.step) {
    exchange_ = std::make_shared<Exchange>();
    exchange_->step = transfer.key.step;
    exchange_->deadline = transfer.deadline + kAnswerMargin;
    exchange_->by_bucket.resize(buckets_.size());
    exchange_->gather_context.set_deadline(absl::ToChronoTime(exchange_->deadline));
    exchange_->scatter_context.set_deadline(absl::ToChronoTime(exchange_->deadline));
    exchange_->status = cancelled_;
    if (!cancelled_.ok()) {
      exchange_->gather_context.TryCancel();
      exchange_->scatter_context.TryCancel();
    }
  }
  exchange_->entries.push_back(std::make_unique<Entry>(std::move(transfer)));
  Entry* entry = exchange_->entries.back().get();
  exchange_->by_bucket[entry->transfer.key.bucket.value()] = entry;
  changed_.NotifyAll();
}

std::shared_ptr<CoordinatorBackend::Exchange> CoordinatorBackend::WaitForExchange(
    const Exchange* last) {
  MutexLock lock(&mutex_);
  while (!closing_ && exchange_.get() == last) changed_.Wait(&mutex_);
  return exchange_.get() == last ? nullptr : exchange_;
}

CoordinatorBackend::Entry* CoordinatorBackend::WaitForEntry(Exchange* exchange, size_t index) {
  MutexLock lock(&mutex_);
  while (exchange->status.ok() && exchange->entries.size() <= index) changed_.Wait(&mutex_);
  return exchange->status.ok() ? exchange->entries[index].get() : nullptr;
}

CoordinatorBackend::Entry* CoordinatorBackend::WaitForBucket(Exchange* exchange, Bucket bucket) {
  MutexLock lock(&mutex_);
  const auto& entry = exchange->by_bucket[bucket.value()];
  while (exchange->status.ok() && entry == nullptr) changed_.Wait(&mutex_);
  return exchange->status.ok() ? entry : nullptr;
}

void CoordinatorBackend::GatherLoop() {
  std::shared_ptr<Exchange> exchange;
  while ((exchange = WaitForExchange(exchange.get())) != nullptr) {
    absl::Status status = Gather(exchange.get());
    if (!status.ok()) Fail(exchange.get(), std::move(status));
    MutexLock lock(&mutex_);
    exchange->gather_over = true;
    changed_.NotifyAll();
  }
}

absl::Status CoordinatorBackend::Gather(Exchange* exchange) {
  const RpcMethod method("/gradwire.v1.Aggregation/Gather", RpcMethod::CLIENT_STREAMING, channel_);
  v1::GatherReply reply;
  std::unique_ptr<grpc::ClientWriter<grpc::ByteBuffer>> writer(
      grpc::internal::ClientWriterFactory<grpc::ByteBuffer>::Create(
          channel_.get(), method, &exchange->gather_context, &reply));
  for (size_t index = 0; index < buckets_.size(); ++index) {
    Entry* entry = WaitForEntry(exchange, index);
    if (entry == nullptr || !SendEntry(entry, writer.get())) break;
  }
  writer->WritesDone();
  return Annotate(FromGrpc(writer->Finish()), absl::StrCat("Gather at coordinator ", coordinator_,
                                                           ", step ", exchange->step.value()));
}

bool CoordinatorBackend::SendEntry(Entry* entry, grpc::ClientWriter<grpc::ByteBuffer>* writer) {
  const Transfer& transfer = entry->transfer;
  if (transfer.spec.dtype == v1::DTYPE_BYTES && view_.rank != Rank(0)) return true;
  for (uint64_t offset = 0; offset < transfer.spec.bytes; offset += view_.chunk_bytes) {
    const auto payload = transfer.terms.subspan(offset, view_.chunk_bytes);
    const ChunkHeader header{view_.run_id,
                             view_.epoch,
                             view_.generation,
                             transfer.key.step,
                             view_.rank,
                             transfer.key.bucket,
                             offset,
                             transfer.spec.bytes,
                             transfer.spec.dtype,
                             Checksum(payload),
                             0};
    const auto message = EncodeChunk(header, entry->lender.Lend(payload.data(), payload.size()));
    if (!writer->Write(message)) return false;
    bytes_sent_ += payload.size();
  }
  return true;
}

void CoordinatorBackend::ScatterLoop() {
  std::shared_ptr<Exchange> exchange;
  while ((exchange = WaitForExchange(exchange.get())) != nullptr) {
    absl::Status status = Scatter(exchange.get());
    if (!status.ok()) Fail(exchange.get(), std::move(status));
    CompleteRest(exchange.get());
  }
}

absl::Status CoordinatorBackend::Scatter(Exchange* exchange) {
  const RpcMethod method("/gradwire.v1.Aggregation/Scatter", RpcMethod::SERVER_STREAMING, channel_);
  v1::ScatterRequest request;
  request.set_run_id(ToBytes(view_.run_id));
  request.set_epoch(view_.epoch.value());
  request.set_generation(view_.generation.value());
  request.set_step(exchange->step.value());
  request.set_rank(view_.rank.value());
  std::unique_ptr<grpc::ClientReader<grpc::ByteBuffer>> reader(
      grpc::internal::ClientReaderFactory<grpc::ByteBuffer>::Create(
          channel_.get(), method, &exchange->scatter_context, request));
  grpc::ByteBuffer buffer;
  while (reader->Read(&buffer)) {
    if (absl::Status taken = Take(exchange, &buffer); !taken.ok()) {
      Fail(exchange, taken);
      exchange->scatter_context.TryCancel();
    }
    buffer.Clear();
  }
  return Annotate(
      FromGrpc(reader->Finish()),
      absl::StrCat("Scatter from coordinator ", coordinator_, ", step ", exchange->step.value()));
}

absl::Status CoordinatorBackend::Take(Exchange* exchange, grpc::ByteBuffer* buffer) {
  absl::StatusOr<Chunk> chunk = DecodeChunk(buffer);
  if (!chunk.ok()) return chunk.status();
  const uint64_t bytes = TotalBytes(chunk->payload);
  const ReceiverState receiver{view_.run_id,   view_.epoch,      view_.generation,
                               exchange->step, view_.world_size, buckets_};
  absl::StatusOr<Verdict> verdict = JudgeHeader(chunk->header, bytes, receiver, absl::nullopt);
  if (!verdict.ok()) return verdict.status();
  if (*verdict != Verdict::kAccept) return absl::OkStatus();
  if (absl::Status payload = CheckPayload(*chunk); !payload.ok()) return payload;
  // Rank 0's bytes may be here before this rank has handed in the bucket.
  Entry* entry = WaitForBucket(exchange, chunk->header.bucket);
  if (entry == nullptr) return absl::OkStatus();  // the exchange failed
  if (entry->finished) {
    return absl::InternalError(
        absl::StrCat("chunk of ", ToString(chunk->header), ": the bucket is complete"));
  }
  CopyTo(chunk->payload, entry->transfer.result.data() + chunk->header.offset);
  bytes_received_ += bytes;
  entry->received += bytes;
  if (entry->received < entry->transfer.spec.bytes) return absl::OkStatus();
  // The coordinator has all of our terms, so the memory is on its way back.
  entry->finished = true;
  entry->transfer.done(entry->lender.Reclaim(absl::OkStatus()));
  return absl::OkStatus();
}

void CoordinatorBackend::Fail(Exchange* exchange, absl::Status status) {
  MutexLock lock(&mutex_);
  if (exchange->status.ok()) exchange->status = cancelled_.ok() ? std::move(status) : cancelled_;
  exchange->gather_context.TryCancel();
  exchange->scatter_context.TryCancel();
  changed_.NotifyAll();
}

CoordinatorBackend::Entry* CoordinatorBackend::NextToComplete(Exchange* exchange, size_t index) {
  MutexLock lock(&mutex_);
  while (!exchange->gather_over) changed_.Wait(&mutex_);
  // A failed exchange still hears of buckets that are handed in later.
  while (exchange->entries.size() == index && index < buckets_.size() && !closing_ &&
         exchange_.get() == exchange) {
    changed_.Wait(&mutex_);
  }
  return index < exchange->entries.size() ? exchange->entries[index].get() : nullptr;
}

void CoordinatorBackend::CompleteRest(Exchange* exchange) {
  size_t index = 0;
  while (Entry* entry = NextToComplete(exchange, index++)) {
    if (entry->finished) continue;
    absl::Status status;
    {
      MutexLock lock(&mutex_);
      status = exchange->status;
    }
    if (status.ok()) {
      status = absl::InternalError(
          absl::StrCat("step ", exchange->step.value(),
                       ": the coordinator ended Scatter before its last chunk"));
    }
    entry->finished = true;
    entry->transfer.done(entry->lender.Reclaim(std::move(status)));
  }
}

void CoordinatorBackend::Cancel(absl::Status reason) {
  std::shared_ptr<Exchange> exchange;
  {
    MutexLock lock(&mutex_);
    if (cancelled_.ok()) cancelled_ = reason;
    exchange = exchange_;
  }
  if (exchange != nullptr) Fail(exchange.get(), std::move(reason));
}

absl::Status CoordinatorBackend::Finish(absl::Time) { return absl::OkStatus(); }

TransferTotals CoordinatorBackend::totals() const { return {bytes_sent_, bytes_received_}; }

std::unique_ptr<Backend> MakeCoordinatorBackend(const BackendOptions& options) {
  return std::make_unique<CoordinatorBackend>(options.coordinator);
}

}  // namespace gradwire
