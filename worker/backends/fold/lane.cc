#include "worker/backends/fold/lane.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/fold/half.h"
#include "common/wire/judge.h"

namespace gradwire {
namespace {

// Enough to hide a round trip, little enough to wait behind.
constexpr uint64_t kWindowBytes = 1 << 20;
constexpr uint64_t kHalfBytes = 2;

bool IsHalf(v1::DType dtype) { return ElementBytes(dtype) == kHalfBytes; }

}  // namespace

Lane::Lane(const LaneContext& context) : context_(context), queue_(kWindowBytes) {}

void Lane::Start() {
  sender_ = std::thread([this] { SendAll(); });
  receiver_ = std::thread([this] { ReceiveAll(); });
}

void Lane::Cancel() { queue_.Cancel(); }

void Lane::Join() {
  if (sender_.joinable()) sender_.join();
  if (receiver_.joinable()) receiver_.join();
}

ChunkHeader Lane::HeaderOf(const Piece& piece) const {
  const Transfer& transfer = piece.exchange->transfer;
  const BucketSpec& spec = context_.buckets[transfer.key.bucket.value()];
  const View& view = context_.view;
  return {view.run_id,
          view.epoch,
          view.generation,
          transfer.key.step,
          view.rank,
          transfer.key.bucket,
          piece.exchange->grid.Offset(piece.index),
          spec.bytes,
          spec.dtype,
          0,
          0};
}

Chunk Lane::NarrowTerm(const ChunkHeader& header, const Transfer& transfer, uint64_t bytes) const {
  const auto* floats = reinterpret_cast<const float*>(transfer.terms.data());
  std::shared_ptr<uint8_t[]> memory(new uint8_t[bytes]);
  const bool overflow =
      Narrow({floats + header.offset / kHalfBytes, bytes / kHalfBytes}, header.dtype, memory.get());
  if (overflow) context_.host->OnOverflow(header.step);
  return {header, {{memory.get(), bytes}}, memory};
}

Chunk Lane::TermOf(const Piece& piece) const {
  Exchange& exchange = *piece.exchange;
  const uint64_t offset = exchange.grid.Offset(piece.index);
  const uint64_t bytes = exchange.grid.Bytes(piece.index);
  const ChunkHeader header = HeaderOf(piece);
  if (IsHalf(header.dtype)) return NarrowTerm(header, exchange.transfer, bytes);
  return {header, {exchange.transfer.terms.subspan(offset, bytes)}, exchange.lender.LendToken()};
}

absl::StatusOr<Piece> Lane::FindPiece(const ChunkHeader& header, uint64_t bytes) {
  const View& view = context_.view;
  const ReceiverState receiver{view.run_id, view.epoch,      view.generation,
                               header.step, view.world_size, context_.buckets};
  absl::StatusOr<Verdict> verdict = JudgeHeader(header, bytes, receiver, absl::nullopt);
  if (!verdict.ok()) return verdict.status();
  if (*verdict != Verdict::kAccept) return Piece();
  absl::StatusOr<std::shared_ptr<Exchange>> exchange =
      context_.host->WaitFor(header.step, header.bucket);
  if (!exchange.ok()) return exchange.status();
  if (*exchange == nullptr) return Piece();  // the back end has failed
  const absl::optional<size_t> index = (*exchange)->grid.Find(header.offset, bytes);
  if (!index.has_value() || (*exchange)->received[*index]) {
    return absl::InternalError(absl::StrCat("chunk of ", ToString(header), ": got ", bytes,
                                            " bytes, expected each piece of the bucket once"));
  }
  return Piece{*std::move(exchange), *index};
}

absl::Status Lane::Take(const ChunkHeader& header, const Pieces& payload) {
  const uint64_t bytes = TotalBytes(payload);
  absl::StatusOr<Piece> piece = FindPiece(header, bytes);
  if (!piece.ok()) return piece.status();
  if (piece->exchange == nullptr) return absl::OkStatus();
  Exchange& exchange = *piece->exchange;
  if (IsHalf(header.dtype)) {
    auto* floats = reinterpret_cast<float*>(exchange.transfer.result.data());
    Widen(payload, header.dtype, {floats + header.offset / kHalfBytes, bytes / kHalfBytes});
  } else {
    CopyTo(payload, exchange.transfer.result.data() + header.offset);
  }
  exchange.received[piece->index] = 1;
  queue_.OnMean(*piece);
  context_.host->OnMean(*piece);
  return absl::OkStatus();
}

}  // namespace gradwire
