#include "worker/backends/fold/lane.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/aggregation/aggregator.h"
#include "common/base/status_util.h"
#include "common/fold/fold.h"

namespace gradwire {
namespace {

constexpr uint64_t kHalfBytes = 2;

bool IsHalf(v1::DType dtype) { return ElementBytes(dtype) == kHalfBytes; }

class LocalLane : public Lane {
 public:
  LocalLane(const LaneContext& context, Aggregator* aggregator)
      : Lane(context), aggregator_(aggregator) {}

  absl::Status Connect(const std::function<absl::Status()>&) override { return absl::OkStatus(); }
  bool Finish(absl::Time deadline) override {
    queue_.Close();
    return AwaitSender(deadline);
  }
  absl::StatusOr<std::vector<Rank>> Missing(LayoutId layout, Step step) override {
    return aggregator_->MissingRanks(layout, step);
  }

 protected:
  void SendAll() override {
    while (absl::optional<OutgoingChunk> piece = queue_.Pop()) {
      Chunk term = TermOf(*piece);
      piece.reset();
      absl::StatusOr<Verdict> verdict = aggregator_->AddOwn(std::move(term));
      if (!verdict.ok()) return context_.host->OnFailure(verdict.status(), absl::nullopt);
    }
  }

  void ReceiveAll() override {
    MeanCursor cursor;
    absl::Status status;
    while (status.ok()) {
      absl::StatusOr<Mean> mean = aggregator_->Next(&cursor, absl::InfiniteFuture());
      if (!mean.ok()) {
        status = mean.status();
      } else {
        const absl::Span<const uint8_t> bytes(mean->chunk->data.get(), mean->chunk->bytes);
        status = Take({mean->header, {bytes}, mean->chunk});
      }
    }
    context_.host->OnFailure(status, absl::nullopt);
  }

 private:
  Aggregator* const aggregator_;
};

}  // namespace

Lane::Lane(const LaneContext& context) : context_(context), queue_(kWindowBytes) {}

void Lane::Start() {
  sender_ = std::thread([this] {
    SendAll();
    MutexLock lock(&mutex_);
    sender_is_over_ = true;
    changed_.NotifyAll();
  });
  receiver_ = std::thread([this] { ReceiveAll(); });
}

void Lane::Cancel() { queue_.Cancel(); }

bool Lane::AwaitSender(absl::Time deadline) {
  MutexLock lock(&mutex_);
  while (!sender_is_over_ && !changed_.WaitWithDeadline(&mutex_, deadline)) {
  }
  return sender_is_over_;
}

void Lane::Join() {
  if (sender_.joinable()) sender_.join();
  if (receiver_.joinable()) receiver_.join();
}

ChunkHeader Lane::HeaderOf(const OutgoingChunk& piece) const {
  const View& view = context_.view;
  ChunkHeader header;
  header.run_id = view.run_id;
  header.epoch = view.epoch;
  header.generation = view.generation;
  header.layout = piece.transfer->key.layout;
  header.step = piece.transfer->key.step;
  header.rank = piece.rank;
  header.bucket = piece.transfer->key.bucket;
  header.offset = piece.transfer->grid.Offset(piece.index);
  header.total = piece.transfer->spec.bytes;
  header.dtype = piece.transfer->spec.dtype;
  header.clocks.rate = piece.rate;
  return header;
}

Chunk Lane::NarrowTerm(const ChunkHeader& header, const OutgoingChunk& piece) const {
  const auto* floats = reinterpret_cast<const float*>(piece.terms.data());
  const uint64_t bytes = piece.bytes();
  std::shared_ptr<uint8_t[]> memory(new uint8_t[bytes]);
  const bool overflow =
      Narrow({floats + header.offset / kHalfBytes, bytes / kHalfBytes}, header.dtype, memory.get());
  if (overflow) context_.host->OnOverflow(header.step, header.rank);
  return {header, {{memory.get(), bytes}}, memory};
}

Chunk Lane::CodedTerm(ChunkHeader header, const OutgoingChunk& piece) const {
  const auto* floats = reinterpret_cast<const float*>(piece.terms.data());
  const uint64_t first = header.offset / sizeof(float);
  header.covers = piece.bytes();
  Compressor* compressor = context_.compressors->Of(header.layout, header.rank, header.bucket,
                                                    header.total / sizeof(float));
  const absl::Span<const float> values(floats + first, header.covers / sizeof(float));
  CompressionTotals totals;
  auto payload = std::make_shared<const std::vector<uint8_t>>(
      EncodeTerm(compressor, header.step, first, values, &totals));
  context_.host->OnCompressed(totals);
  return {header, {{payload->data(), payload->size()}}, payload};
}

Chunk Lane::TermOf(const OutgoingChunk& piece) const {
  const ChunkHeader header = HeaderOf(piece);
  if (IsHalf(header.dtype)) return NarrowTerm(header, piece);
  if (IsCoded(header.dtype)) return CodedTerm(header, piece);
  return {header,
          {piece.terms.subspan(header.offset, piece.bytes())},
          piece.transfer->lender.LendToken()};
}

absl::StatusOr<Verdict> Lane::Judge(const ChunkHeader& header, uint64_t bytes,
                                    const std::vector<BucketSpec>& buckets) const {
  const View& view = context_.view;
  return JudgeHeader(
      header, bytes,
      {view.run_id, view.epoch, view.generation, header.step, view.world_size, buckets},
      absl::nullopt);
}

absl::StatusOr<Lane::MeanTarget> Lane::FindTarget(const Chunk& mean) {
  const ChunkHeader& header = mean.header;
  const uint64_t bytes = CoveredBytes(mean);
  const std::vector<BucketSpec>* buckets = context_.host->WaitForLayout(header.layout);
  if (buckets == nullptr) return MeanTarget();
  absl::StatusOr<Verdict> verdict = Judge(header, bytes, *buckets);
  if (!verdict.ok()) return verdict.status();
  if (*verdict != Verdict::kAccept) return MeanTarget();
  absl::StatusOr<std::shared_ptr<FoldTransfer>> transfer =
      context_.host->FindOrKeep({header.layout, header.step, header.bucket}, [this, mean] {
        if (absl::Status taken = Take(mean); !taken.ok()) {
          context_.host->OnFailure(taken, absl::nullopt);
        }
      });
  if (!transfer.ok()) {
    return Annotate(transfer.status(), absl::StrCat("mean of ", ToString(header)));
  }
  if (*transfer == nullptr) return MeanTarget();
  const absl::optional<size_t> index = (*transfer)->grid.Find(header.offset, bytes);
  if (!index.has_value() || (*transfer)->received[*index]) {
    return absl::InternalError(absl::StrCat("chunk of ", ToString(header), ": got ", bytes,
                                            " bytes, expected each piece of the bucket once"));
  }
  return MeanTarget{*std::move(transfer), *index};
}

absl::Status Lane::Unpack(const Chunk& mean, uint8_t* out) {
  const ChunkHeader& header = mean.header;
  if (const Coding* coding = CodingOf(header.dtype)) {
    const uint64_t count = header.covers / sizeof(float);
    absl::Status status = coding->Check(mean.payload, count);
    if (!status.ok()) return Annotate(status, absl::StrCat("mean of ", ToString(header)));
    auto* floats = reinterpret_cast<float*>(out);
    coding->Decode(mean.payload, {floats + header.offset / sizeof(float), count});
  } else if (IsHalf(header.dtype)) {
    auto* floats = reinterpret_cast<float*>(out);
    const uint64_t count = TotalBytes(mean.payload) / kHalfBytes;
    Widen(mean.payload, header.dtype, {floats + header.offset / kHalfBytes, count});
  } else {
    CopyTo(mean.payload, out + header.offset);
  }
  return absl::OkStatus();
}

absl::Status Lane::Take(const Chunk& mean) {
  absl::StatusOr<MeanTarget> target = FindTarget(mean);
  if (!target.ok()) return target.status();
  if (target->transfer == nullptr) return absl::OkStatus();
  FoldTransfer& transfer = *target->transfer;
  absl::Status unpacked = Unpack(mean, transfer.result.data());
  if (!unpacked.ok()) return unpacked;
  if (IsCoded(mean.header.dtype)) {
    context_.host->OnCompressed({mean.header.covers, TotalBytes(mean.payload)});
  }
  transfer.received[target->piece] = 1;
  queue_.OnMean(transfer, target->piece);
  if (mean.header.clocks.fastest > 0) context_.host->OnClocks(mean.header.clocks);
  context_.host->OnMean(target->transfer);
  return absl::OkStatus();
}

std::unique_ptr<Lane> MakeLocalLane(const LaneContext& context, Aggregator* aggregator) {
  return std::make_unique<LocalLane>(context, aggregator);
}

}  // namespace gradwire
