#include "worker/backends/ring/ring_backend.h"

#include <grpcpp/impl/codegen/rpc_method.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_util.h"
#include "common/rpc/channel.h"
#include "common/wire/chunk_codec.h"

namespace gradwire {
namespace {

// Small enough that hops overlap, large enough that a message's cost is small.
constexpr uint64_t kRingChunkBytes = 512 << 10;

}  // namespace

RingBackend::RingBackend(v1::DType wire)
    : wire_(wire),
      overflow_(wire),
      service_([this](Chunk chunk) { return OnChunk(std::move(chunk)); },
               [this](absl::Status status) { OnLeftEnd(std::move(status)); }) {}

RingBackend::~RingBackend() {
  Cancel(absl::CancelledError("the back end is shutting down"));
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  if (sender_.joinable()) sender_.join();
}

std::string RingBackend::NameOf(absl::string_view side, int rank) const {
  return absl::StrCat(side, " neighbour rank ", rank, " (", view_.Carrier(Rank(rank)).address, ")");
}

absl::Status RingBackend::OnView(const View& view, std::vector<BucketSpec> buckets) {
  const int world_size = view.world_size;
  {
    MutexLock lock(&mutex_);
    view_ = view;
    buckets_ = WireSpecs(std::move(buckets), wire_);
    for (const BucketSpec& bucket : buckets_) {
      half_memory_.emplace_back(ElementBytes(bucket.dtype) == 2 ? bucket.bytes : 0);
    }
    left_ = (view.rank.value() + world_size - 1) % world_size;
    right_ = (view.rank.value() + 1) % world_size;
    has_view_ = true;
    changed_.NotifyAll();
  }
  if (world_size > 1) {
    if (absl::Status right = ConnectRight(); !right.ok()) {
      Fail(right, right_);
      return right;
    }
  }
  sender_ = std::thread([this] { SenderLoop(); });
  return absl::OkStatus();
}

absl::Status RingBackend::ConnectRight() {
  const std::string address = view_.Carrier(Rank(right_)).address;
  channel_ = MakeChannel(address);
  absl::Status connected = WaitConnected(channel_.get(), RightName(), [this] {
    MutexLock lock(&mutex_);
    return failure_;
  });
  if (!connected.ok()) return connected;
  const grpc::internal::RpcMethod method("/gradwire.v1.Neighbor/Stream",
                                         grpc::internal::RpcMethod::BIDI_STREAMING, channel_);
  stream_.reset(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, v1::NeighborReply>::Create(
          channel_.get(), method, &context_));
  return absl::OkStatus();
}

void RingBackend::AllReduceAsync(const ReduceKey& key, absl::Span<const float> terms,
                                 absl::Span<float> mean, absl::Time deadline, Done done) {
  Submit(MakeReduce(key, terms, mean, deadline, std::move(done)));
}

void RingBackend::BroadcastAsync(const ReduceKey& key, absl::Span<uint8_t> bytes,
                                 absl::Time deadline, Done done) {
  Submit(MakeBroadcast(key, bytes, deadline, std::move(done)));
}

void RingBackend::Submit(Transfer transfer) {
  const ReduceKey key = transfer.key;
  const int world_size = view_.world_size;
  const size_t bucket = key.bucket.value();
  auto reduction = std::make_shared<Reduction>(RingReduction(
      std::move(transfer), buckets_[bucket], world_size, half_memory_[bucket].data()));
  if (world_size == 1 && reduction->ring.AverageAlone()) overflow_.Note(key.step, view_.rank);
  MutexLock lock(&mutex_);
  open_step_ = std::max(open_step_, key.step);
  reduction->to_take = reduction->ring.BytesSentBy(left_);
  reduction->to_receive =
      reduction->to_take - std::min(reduction->to_take, early_.Bytes(KeyOf(key)));
  reduction->to_send = reduction->ring.BytesSentBy(view_.rank.value());
  QueueTerms(reduction);
  CheckEarly(key.step);
  if (left_over_ && reduction->to_receive > 0 && failure_.ok()) {
    failure_ = absl::UnavailableError(absl::StrCat(LeftName(), ": it ended its stream early"));
    suspect_ = Rank(left_);
  }
  reductions_[KeyOf(key)] = std::move(reduction);
  changed_.NotifyAll();
}

// What came early of a step that is over was of no bucket of it.
void RingBackend::CheckEarly(Step step) {
  const absl::optional<uint64_t> first = early_.FirstStep();
  if (!failure_.ok() || !first.has_value() || *first >= step.value()) return;
  failure_ = absl::InvalidArgumentError(
      absl::StrCat(LeftName(), ": it sent more chunks of step ", *first, " than there are"));
  suspect_ = Rank(left_);
}

void RingBackend::QueueTerms(const std::shared_ptr<Reduction>& reduction) {
  if (reduction->ring.hops() == 0) return;
  const RingSchedule::Segment segment = reduction->ring.SentBy(view_.rank.value(), 0);
  for (uint64_t sent = 0; sent < segment.bytes; sent += kRingChunkBytes) {
    Queue({reduction, 0, segment.offset + sent, std::min(kRingChunkBytes, segment.bytes - sent)});
  }
}

void RingBackend::Queue(Outgoing outgoing) {
  queue_[outgoing.reduction->ring.transfer().key.bucket].push_back(std::move(outgoing));
}

// Waits for the view, if this rank does not have it yet.
absl::Status RingBackend::CheckStep(const ChunkHeader& header) {
  MutexLock lock(&mutex_);
  while (failure_.ok() && !has_view_) changed_.Wait(&mutex_);
  if (!failure_.ok()) return failure_;
  if (header.run_id != view_.run_id) {
    return absl::PermissionDeniedError(absl::StrCat("chunk of run ", ToHex(header.run_id),
                                                    ", expected run ", ToHex(view_.run_id)));
  }
  // A neighbour is at most one step ahead.
  const uint64_t next = open_step_.value() + 1;
  if (header.step >= open_step_ && header.step.value() <= next) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("chunk of ", ToString(header), ": expected step ", next - 1, " or ", next));
}

absl::StatusOr<std::shared_ptr<RingBackend::Reduction>> RingBackend::FindOrKeep(Chunk* chunk) {
  const ChunkHeader& header = chunk->header;
  const Key key = KeyOf({header.step, header.bucket});
  const uint64_t bytes = TotalBytes(chunk->payload);
  MutexLock lock(&mutex_);
  if (!failure_.ok()) return failure_;
  const auto found = reductions_.find(key);
  if (found != reductions_.end()) {
    Reduction& reduction = *found->second;
    reduction.to_receive -= std::min(bytes, reduction.to_receive);
    if (!early_.Holds(key)) {
      reduction.taking = true;
      return found->second;
    }
  }
  // A bucket goes round less than twice.
  const uint64_t most_bytes = 2 * buckets_[header.bucket.value()].bytes;
  const absl::Status kept = early_.Keep(key, std::move(*chunk), most_bytes);
  changed_.NotifyAll();
  if (!kept.ok()) return kept;
  return nullptr;
}

absl::Status RingBackend::Take(const std::shared_ptr<Reduction>& reduction, const Chunk& chunk) {
  const ChunkHeader& header = chunk.header;
  const uint64_t bytes = TotalBytes(chunk.payload);
  const int hop = static_cast<int>(header.hop);
  const absl::Status status = reduction->ring.CheckPlace(header, bytes, left_);
  if (status.ok()) {
    if (reduction->ring.Take(header, chunk.payload)) overflow_.Note(header.step, view_.rank);
    bytes_received_ += bytes;
  }
  MutexLock lock(&mutex_);
  reduction->taking = false;
  if (status.ok()) {
    reduction->to_take -= bytes;
    if (reduction->ring.ForwardsFrom(hop)) Queue({reduction, hop + 1, header.offset, bytes});
  }
  changed_.NotifyAll();
  return status;
}

absl::Status RingBackend::OnChunk(Chunk chunk) {
  if (absl::Status status = CheckStep(chunk.header); !status.ok()) return status;
  if (absl::Status status = CheckRingChunk(chunk, view_, buckets_); !status.ok()) return status;
  const absl::StatusOr<std::shared_ptr<Reduction>> reduction = FindOrKeep(&chunk);
  if (!reduction.ok()) return reduction.status();
  return *reduction == nullptr ? absl::OkStatus() : Take(*reduction, chunk);
}

void RingBackend::OnLeftEnd(absl::Status status) {
  bool expected = status.ok();
  {
    MutexLock lock(&mutex_);
    left_over_ = true;
    for (const auto& entry : reductions_) expected = expected && entry.second->to_receive == 0;
    changed_.NotifyAll();
  }
  if (expected) return;
  if (status.ok()) status = absl::UnavailableError("it ended its stream early");
  Fail(Annotate(status, LeftName()), left_);
}

void RingBackend::Fail(absl::Status status, int peer) {
  MutexLock lock(&mutex_);
  if (failure_.ok()) {
    failure_ = std::move(status);
    if (peer >= 0) suspect_ = Rank(peer);
  }
  context_.TryCancel();
  changed_.NotifyAll();
}

void RingBackend::Cancel(absl::Status reason) { Fail(std::move(reason), -1); }

absl::optional<Rank> RingBackend::suspect() const {
  MutexLock lock(&mutex_);
  return suspect_;
}

std::vector<std::shared_ptr<RingBackend::Reduction>> RingBackend::TakeCompleted(
    absl::Status* status) {
  *status = failure_;
  std::vector<std::shared_ptr<Reduction>> completed;
  if (!failure_.ok()) {
    queue_.clear();
    early_.Clear();
  }
  for (auto it = reductions_.begin(); it != reductions_.end();) {
    const Reduction& reduction = *it->second;
    const bool is_over = !failure_.ok() || (reduction.to_take == 0 && reduction.to_send == 0);
    if (is_over && !reduction.taking) {
      completed.push_back(std::move(it->second));
      it = reductions_.erase(it);
    } else {
      ++it;
    }
  }
  return completed;
}

bool RingBackend::Send(const Outgoing& outgoing) {
  RingReduction& ring = outgoing.reduction->ring;
  const ReduceKey& key = ring.transfer().key;
  if (outgoing.hop == 0 && ring.PrepareTerms(outgoing.offset, outgoing.bytes)) {
    overflow_.Note(key.step, view_.rank);
  }
  const uint8_t* payload = ring.SentFrom(outgoing.hop) + outgoing.offset;
  const ChunkHeader header{view_.run_id,
                           view_.epoch,
                           view_.generation,
                           key.step,
                           view_.rank,
                           key.bucket,
                           outgoing.offset,
                           ring.spec().bytes,
                           ring.spec().dtype,
                           Checksum({payload, outgoing.bytes}),
                           static_cast<uint32_t>(outgoing.hop)};
  grpc::Slice slice = ring.lender().Lend(payload, outgoing.bytes);
  if (!stream_->Write(EncodeChunk(header, std::move(slice)))) return false;
  bytes_sent_ += outgoing.bytes;
  MutexLock lock(&mutex_);
  outgoing.reduction->to_send -= outgoing.bytes;
  return true;
}

void RingBackend::SendOrFail(const Outgoing& outgoing) {
  if (Send(outgoing)) return;
  absl::Status status = FromGrpc(stream_->Finish());
  stream_.reset();
  if (status.ok()) status = absl::UnavailableError("it ended the stream");
  Fail(Annotate(status, RightName()), right_);
}

absl::Status RingBackend::WaitForWork() {
  absl::Time deadline = absl::InfiniteFuture();
  const Reduction* oldest = nullptr;
  for (const auto& entry : reductions_) {
    if (entry.second->ring.transfer().deadline >= deadline) continue;
    oldest = entry.second.get();
    deadline = oldest->ring.transfer().deadline;
  }
  if (!changed_.WaitWithDeadline(&mutex_, deadline) || absl::Now() < deadline) {
    return absl::OkStatus();
  }
  const ReduceKey& key = oldest->ring.transfer().key;
  return absl::DeadlineExceededError(absl::StrCat(
      "step ", key.step.value(), ", bucket ", key.bucket.value(), ": ", oldest->to_receive,
      " bytes of ", LeftName(), " and those before it are missing"));
}

void RingBackend::NextEarly(Work* work) {
  work->taker = nullptr;
  absl::optional<Chunk> chunk =
      early_.Next([this](const Key& key) { return reductions_.count(key) > 0; });
  if (!chunk.has_value()) return;
  work->chunk = *std::move(chunk);
  work->taker = reductions_.at(KeyOf({work->chunk.header.step, work->chunk.header.bucket}));
  work->taker->taking = true;
}

void RingBackend::NextOutgoing(Work* work) {
  work->outgoing = Outgoing();
  if (queue_.empty()) return;
  const auto urgent = std::prev(queue_.end());
  work->outgoing = std::move(urgent->second.front());
  urgent->second.pop_front();
  if (urgent->second.empty()) queue_.erase(urgent);
}

bool RingBackend::NextWork(Work* work) {
  MutexLock lock(&mutex_);
  NextEarly(work);
  work->completed = TakeCompleted(&work->status);
  NextOutgoing(work);
  if (work->completed.empty() && work->taker == nullptr && work->outgoing.reduction == nullptr) {
    if (closing_ || (finishing_ && reductions_.empty())) return false;
    absl::Status waited = WaitForWork();
    if (failure_.ok()) failure_ = std::move(waited);
  }
  return true;
}

void RingBackend::SenderLoop() {
  Work work;
  while (NextWork(&work)) {
    for (const auto& reduction : work.completed) {
      reduction->ring.transfer().done(reduction->ring.lender().Reclaim(work.status));
    }
    if (work.taker != nullptr) {
      const absl::Status status = Take(work.taker, work.chunk);
      if (!status.ok()) Fail(Annotate(status, LeftName()), left_);
    }
    if (work.outgoing.reduction != nullptr) SendOrFail(work.outgoing);
  }
  absl::Status closed = CloseRight();
  MutexLock lock(&mutex_);
  if (failure_.ok()) failure_ = std::move(closed);
  sender_over_ = true;
  changed_.NotifyAll();
}

absl::Status RingBackend::CloseRight() {
  if (stream_ == nullptr) return absl::OkStatus();
  stream_->WritesDone();
  absl::Status status = FromGrpc(stream_->Finish());
  stream_.reset();
  return Annotate(status, RightName());
}

absl::Status RingBackend::Finish(absl::Time deadline) {
  MutexLock lock(&mutex_);
  finishing_ = true;
  changed_.NotifyAll();
  const bool has_neighbours = view_.world_size > 1;
  while (failure_.ok() && (!sender_over_ || (has_neighbours && !left_over_))) {
    if (!changed_.WaitWithDeadline(&mutex_, deadline)) continue;
    return absl::DeadlineExceededError("the ring did not close: neighbours are still busy");
  }
  return failure_;
}

TransferTotals RingBackend::totals() const {
  return {bytes_sent_, bytes_received_, overflow_.steps()};
}

absl::StatusOr<std::unique_ptr<Backend>> MakeRingBackend(const BackendOptions& options) {
  return std::make_unique<RingBackend>(options.wire);
}

}  // namespace gradwire
