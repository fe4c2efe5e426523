#include "worker/backends/ring/ring_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_util.h"
#include "common/wire/chunk_codec.h"
#include "common/wire/judge.h"

namespace gradwire {

RingExchange::RingExchange(const View& view, v1::DType wire)
    : view_(view),
      ranks_(view.OwnRanks()),
      wire_(wire),
      overflow_(wire),
      table_({[this](const Transfer& late) { return Explain(late); },
              [this](const absl::Status&) { Stop(); }, [this] { Drain(); }}) {}

RingExchange::~RingExchange() { table_.Close(); }

std::string RingExchange::NameOfNeighbour(absl::string_view side, Rank rank) const {
  return absl::StrCat(side, " neighbour rank ", rank.value(), " (", view_.Carrier(rank).address,
                      ")");
}

absl::Status RingExchange::Start(const Backend::Ended& ended) {
  for (const Rank rank : ranks_) {
    const Rank right = RightOf(rank, view_.world_size);
    if (view_.Carries(right)) continue;
    auto sender =
        RingSender::Connect(view_.Carrier(right).address, NameOfNeighbour("right", right), ended);
    if (!sender.ok()) {
      table_.Fail(sender.status(), view_.Carrier(right).incarnation);
      return sender.status();
    }
    rights_[rank] = *std::move(sender);
  }
  sender_ = std::thread([this] { SenderLoop(); });
  table_.Start();
  return absl::OkStatus();
}

void RingExchange::AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) {
  std::vector<BucketSpec> specs = WireSpecs(std::move(buckets), wire_);
  const FoldBlocks blocks(specs, view_.world_size);
  for (size_t i = 0; i < specs.size(); ++i) {
    const Bucket bucket(static_cast<int>(i));
    Way way{RingSchedule(bucket, specs[i], blocks, view_.world_size), {}};
    if (ElementBytes(specs[i].dtype) == 2) way.half_memory.resize(specs[i].bytes);
    ways_.emplace(std::make_pair(layout, bucket), std::move(way));
  }
  table_.AddLayout(layout, std::move(specs));
}

RingPosition RingExchange::MakePosition(const Transfer& transfer, Rank rank) {
  Way& way = ways_.at({transfer.key.layout, transfer.key.bucket});
  return RingPosition(&transfer, &way.schedule, rank, view_.world_size, way.half_memory.data());
}

void RingExchange::Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
                          Done done) {
  auto transfer =
      std::make_shared<RingTransfer>(key, table_.SpecOf(key), result, deadline, std::move(done));
  for (const Rank rank : ranks_) transfer->positions.emplace(rank, MakePosition(*transfer, rank));
  absl::Status checked;
  {
    MutexLock lock(&mutex_);
    ++under_way_;
    for (auto& [rank, position] : transfer->positions) {
      position.to_receive -= std::min(position.to_receive, early_.Bytes({key, rank}));
    }
    checked = CheckLefts(*transfer);
    table_.Add(std::move(transfer));
    changed_.NotifyAll();
  }
  if (!checked.ok()) table_.Fail(checked, absl::nullopt);
}

absl::Status RingExchange::CheckLefts(const RingTransfer& transfer) {
  const absl::optional<Step> first = early_.FirstStep(transfer.key.layout);
  if (first.has_value() && *first < transfer.key.step) {
    return absl::InvalidArgumentError(absl::StrCat("a left neighbour sent more chunks of step ",
                                                   first->value(), " than there are"));
  }
  for (const auto& [rank, position] : transfer.positions) {
    const auto left = lefts_.find(position.left());
    if (left == lefts_.end() || !left->second.over || position.to_receive == 0) continue;
    return HasLeft(position.left());
  }
  return absl::OkStatus();
}

void RingExchange::Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) {
  const auto transfer = std::static_pointer_cast<RingTransfer>(table_.Find(key));
  if (transfer == nullptr) return;  // it has failed
  if (IsBroadcast(transfer->spec) && terms.data() != transfer->result.data()) {
    std::memcpy(transfer->result.data(), terms.data(), terms.size());
  }
  RingPosition& position = transfer->positions.at(rank);
  {
    MutexLock lock(&mutex_);
    position.SetTerms(terms);
    if (view_.world_size == 1) {
      --under_way_;
    } else {
      QueueTerms(transfer, position);
    }
    changed_.NotifyAll();
  }
  if (view_.world_size > 1) return;
  if (position.AverageAlone()) overflow_.Note(key.step, rank);
  table_.Complete(key);
}

void RingExchange::QueueTerms(const std::shared_ptr<RingTransfer>& transfer,
                              const RingPosition& position) {
  for (const RingParcel& parcel : position.first_sent()) {
    Queue({transfer, position.rank(), 0, &parcel});
  }
}

void RingExchange::Queue(Outgoing outgoing) {
  queue_[outgoing.transfer->key.bucket].push_back(std::move(outgoing));
}

absl::Status RingExchange::OnChunk(StreamId stream, Chunk chunk) {
  const absl::StatusOr<Verdict> of_view =
      JudgeView(chunk.header, {view_.run_id, view_.epoch, view_.generation, {}, 0, {}});
  if (!of_view.ok()) return of_view.status();
  const std::vector<BucketSpec>* buckets = table_.WaitForLayout(chunk.header.layout);
  if (buckets == nullptr) return table_.failure();
  if (absl::Status status = CheckRingChunk(chunk, view_, *buckets); !status.ok()) return status;
  if (absl::Status status = CheckStream(stream, chunk.header); !status.ok()) return status;
  traffic_.received += TotalBytes(chunk.payload);
  return Accept(std::move(chunk));
}

absl::Status RingExchange::CheckStream(StreamId stream, const ChunkHeader& header) {
  if (absl::Status step = table_.CheckStep(header.layout, header.step); !step.ok()) {
    return Annotate(step, absl::StrCat("chunk of ", ToString(header)));
  }
  MutexLock lock(&mutex_);
  const auto [left, is_first] = lefts_.try_emplace(header.rank, Left{stream});
  if (left->second.stream == stream) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "chunk of ", ToString(header), ": got it in a second stream, expected all of a view in one"));
}

absl::Status RingExchange::Accept(Chunk chunk) {
  const absl::StatusOr<std::shared_ptr<RingTransfer>> transfer = FindOrKeep(&chunk);
  if (!transfer.ok()) return transfer.status();
  return *transfer == nullptr ? absl::OkStatus() : Take(*transfer, chunk);
}

absl::StatusOr<std::shared_ptr<RingExchange::RingTransfer>> RingExchange::FindOrKeep(Chunk* chunk) {
  const ChunkHeader& header = chunk->header;
  const BucketKey key{header.layout, header.step, header.bucket};
  const Rank rank = receiver_of(header);
  const uint64_t bytes = TotalBytes(chunk->payload);
  MutexLock lock(&mutex_);
  if (stopped_) return table_.failure();
  if (const auto found = std::static_pointer_cast<RingTransfer>(table_.Find(key))) {
    RingPosition& position = found->positions.at(rank);
    position.to_receive -= std::min(bytes, position.to_receive);
    if (position.is_ready() && !early_.Holds({key, rank})) {
      ++taking_;
      ++found->taking;
      return found;
    }
  }
  // A bucket goes round less than twice.
  const uint64_t most_bytes = 2 * table_.SpecOf(key).bytes;
  const absl::Status kept = early_.Keep({key, rank}, std::move(*chunk), most_bytes);
  changed_.NotifyAll();
  if (!kept.ok()) return kept;
  return nullptr;
}

bool RingExchange::IsOver(const RingTransfer& transfer) const {
  if (transfer.taking > 0) return false;
  for (const auto& [rank, position] : transfer.positions) {
    if (!position.is_ready() || position.to_take > 0 || position.to_send > 0) return false;
  }
  return true;
}

absl::Status RingExchange::Take(const std::shared_ptr<RingTransfer>& transfer, const Chunk& chunk) {
  const ChunkHeader& header = chunk.header;
  const uint64_t bytes = TotalBytes(chunk.payload);
  const Rank rank = receiver_of(header);
  RingPosition& position = transfer->positions.at(rank);
  const int hop = static_cast<int>(header.hop);
  const absl::StatusOr<const RingParcel*> parcel = position.NextOf(header, bytes);
  if (parcel.ok() && position.Take(**parcel, hop, chunk.payload)) {
    overflow_.Note(header.step, rank);
  }
  bool is_over = false;
  {
    MutexLock lock(&mutex_);
    --taking_;
    --transfer->taking;
    if (parcel.ok()) {
      position.to_take -= bytes;
      if (position.ForwardsFrom(hop)) Queue({transfer, rank, hop + 1, *parcel});
      is_over = IsOver(*transfer);
      under_way_ -= is_over ? 1 : 0;
    }
    changed_.NotifyAll();
  }
  if (is_over) table_.Complete(transfer->key);
  return parcel.status();
}

void RingExchange::OnEnd(StreamId stream, const absl::Status& status) {
  absl::optional<Rank> ended;
  {
    MutexLock lock(&mutex_);
    for (auto& [rank, left] : lefts_) {
      if (left.stream != stream) continue;
      left.over = true;
      ended = rank;
    }
    changed_.NotifyAll();
  }
  if (!ended.has_value()) return;
  if (!status.ok()) {
    Fail(status, "left", *ended);
  } else if (Owes(*ended)) {
    table_.Fail(HasLeft(*ended), absl::nullopt);
  }
}

bool RingExchange::Owes(Rank left) const {
  const Rank receiver = RightOf(left, view_.world_size);
  const auto transfers = table_.All();
  MutexLock lock(&mutex_);
  return std::any_of(transfers.begin(), transfers.end(), [&](const auto& transfer) {
    return static_cast<const RingTransfer&>(*transfer).positions.at(receiver).to_receive > 0;
  });
}

// It is there, and well: so it is no suspect.
absl::Status RingExchange::HasLeft(Rank left) const {
  return absl::FailedPreconditionError(
      absl::StrCat(NameOfNeighbour("left", left), " has left, and others have not done all steps"));
}

void RingExchange::Fail(const absl::Status& status, absl::string_view side, Rank neighbour) {
  table_.Fail(Annotate(status, NameOfNeighbour(side, neighbour)),
              view_.Carrier(neighbour).incarnation);
}

void RingExchange::Stop() {
  for (const auto& [rank, right] : rights_) right->Cancel();
  MutexLock lock(&mutex_);
  stopped_ = true;
  queue_.clear();
  early_.Clear();
  changed_.NotifyAll();
}

void RingExchange::Drain() {
  sender_.join();
  MutexLock lock(&mutex_);
  while (taking_ > 0) changed_.Wait(&mutex_);
}

absl::Status RingExchange::Explain(const Transfer& late) {
  const auto& transfer = static_cast<const RingTransfer&>(late);
  MutexLock lock(&mutex_);
  for (const auto& [rank, position] : transfer.positions) {
    if (position.to_receive == 0 || view_.Carries(position.left())) continue;
    return absl::DeadlineExceededError(
        absl::StrCat(ToString(late.key), ": ", position.to_receive, " bytes of ",
                     NameOfNeighbour("left", position.left()), " and those before it are missing"));
  }
  return absl::DeadlineExceededError(
      absl::StrCat(ToString(late.key), ": a right neighbour takes no more data"));
}

void RingExchange::NextEarly(Work* work) {
  work->taker = nullptr;
  absl::optional<Chunk> chunk = early_.Next([this](const EarlyChunks::Key& key) {
    const auto transfer = std::static_pointer_cast<RingTransfer>(table_.Find(key.first));
    return transfer != nullptr && transfer->positions.at(key.second).is_ready();
  });
  if (!chunk.has_value()) return;
  work->chunk = *std::move(chunk);
  const ChunkHeader& header = work->chunk.header;
  work->taker = std::static_pointer_cast<RingTransfer>(
      table_.Find({header.layout, header.step, header.bucket}));
  ++taking_;
  ++work->taker->taking;
}

void RingExchange::NextOutgoing(Work* work) {
  work->outgoing = Outgoing();
  if (queue_.empty()) return;
  const auto urgent = std::prev(queue_.end());
  work->outgoing = std::move(urgent->second.front());
  urgent->second.pop_front();
  if (urgent->second.empty()) queue_.erase(urgent);
}

bool RingExchange::NextWork(Work* work) {
  MutexLock lock(&mutex_);
  while (true) {
    if (stopped_) return false;
    NextEarly(work);
    NextOutgoing(work);
    if (work->taker != nullptr || work->outgoing.transfer != nullptr) return true;
    if (finishing_ && under_way_ == 0) return false;
    changed_.Wait(&mutex_);
  }
}

void RingExchange::SenderLoop() {
  Work work;
  while (NextWork(&work)) {
    if (work.taker != nullptr) {
      const absl::Status status = Take(work.taker, work.chunk);
      if (!status.ok()) Fail(status, "left", work.chunk.header.rank);
      work.chunk = Chunk();
    }
    if (work.outgoing.transfer != nullptr) Send(work.outgoing);
  }
  work = Work();
  for (const auto& [rank, right] : rights_) {
    const absl::Status closed = right->Close();
    if (!closed.ok()) Fail(closed, "right", RightOf(rank, view_.world_size));
  }
  MutexLock lock(&mutex_);
  sender_over_ = true;
  changed_.NotifyAll();
}

ChunkHeader RingExchange::HeaderOf(const Outgoing& outgoing) const {
  ChunkHeader header;
  header.run_id = view_.run_id;
  header.epoch = view_.epoch;
  header.generation = view_.generation;
  header.layout = outgoing.transfer->key.layout;
  header.step = outgoing.transfer->key.step;
  header.rank = outgoing.sender;
  header.bucket = outgoing.transfer->key.bucket;
  header.offset = outgoing.parcel->ranges.front().offset;
  header.total = outgoing.transfer->spec.bytes;
  header.dtype = outgoing.transfer->spec.dtype;
  header.hop = static_cast<uint32_t>(outgoing.hop);
  return header;
}

void RingExchange::Send(const Outgoing& outgoing) {
  RingTransfer& transfer = *outgoing.transfer;
  RingPosition& position = transfer.positions.at(outgoing.sender);
  if (outgoing.hop == 0 && position.PrepareTerms(*outgoing.parcel)) {
    overflow_.Note(transfer.key.step, outgoing.sender);
  }
  const Pieces payload = position.Sent(*outgoing.parcel, outgoing.hop);
  const ChunkHeader header = HeaderOf(outgoing);
  const auto right = rights_.find(outgoing.sender);
  const absl::Status sent = right == rights_.end()
                                ? Accept({header, payload, nullptr})
                                : SendTo(right->second.get(), outgoing, header, payload);
  if (!sent.ok()) return Fail(sent, "right", RightOf(outgoing.sender, view_.world_size));
  bool is_over;
  {
    MutexLock lock(&mutex_);
    position.to_send -= outgoing.parcel->bytes;
    is_over = IsOver(transfer);
    under_way_ -= is_over ? 1 : 0;
  }
  if (is_over) table_.Complete(transfer.key);
}

absl::Status RingExchange::SendTo(RingSender* right, const Outgoing& outgoing,
                                  const ChunkHeader& header, const Pieces& payload) {
  ChunkHeader sealed = header;
  sealed.checksum = Checksum(payload);
  std::vector<grpc::Slice> slices;
  for (const auto& piece : payload) {
    slices.push_back(outgoing.transfer->lender.Lend(piece.data(), piece.size()));
  }
  const absl::Status sent = right->Write(EncodeChunk(sealed, std::move(slices)));
  if (sent.ok()) traffic_.sent += outgoing.parcel->bytes;
  return sent;
}

absl::Status RingExchange::Finish(absl::Time deadline) {
  MutexLock lock(&mutex_);
  finishing_ = true;
  changed_.NotifyAll();
  const auto is_open = [](const auto& left) { return !left.second.over; };
  while (!stopped_ && (!sender_over_ || std::any_of(lefts_.begin(), lefts_.end(), is_open))) {
    if (!changed_.WaitWithDeadline(&mutex_, deadline)) continue;
    return absl::DeadlineExceededError("the ring did not close: neighbours are still busy");
  }
  return table_.failure();
}

TransferTotals RingExchange::totals() const {
  return {traffic_.sent, traffic_.received, overflow_.steps()};
}

}  // namespace gradwire
