#include "common/sums/layout_sums.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_util.h"
#include "common/compress/codec.h"
#include "common/fold/fold.h"
#include "common/wire/layout.h"

namespace gradwire {

namespace {

// Below this share per owner, an additional message costs more than a longer one.
constexpr uint64_t kLeastShare = 16 << 10;

uint64_t CeilDivide(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

}  // namespace

uint64_t Grid::AlignmentOf(v1::DType dtype) {
  const Coding* coding = CodingOf(dtype);
  return coding == nullptr ? kPlainAlignment : coding->unit() * ElementBytes(dtype);
}

Grid::Grid(Bucket bucket, uint64_t bytes, uint64_t chunk_bytes, int owners, uint64_t alignment)
    : first_owner_(bucket.value() % owners), owners_(owners), bytes_(bytes) {
  if (bytes == 0) return;
  if (alignment > kPlainAlignment) chunk_bytes = std::min(chunk_bytes, kMostCodedBytes);
  uint64_t count = CeilDivide(bytes, chunk_bytes);
  if (bytes >= owners * kLeastShare) count = CeilDivide(count, owners) * owners;
  piece_bytes_ = CeilDivide(CeilDivide(bytes, count), alignment) * alignment;
  pieces_ = CeilDivide(bytes, piece_bytes_);
}

uint64_t Grid::Bytes(size_t piece) const { return std::min(piece_bytes_, bytes_ - Offset(piece)); }

int Grid::Owner(size_t piece) const { return static_cast<int>((first_owner_ + piece) % owners_); }

absl::optional<size_t> Grid::Find(uint64_t offset, uint64_t bytes) const {
  if (pieces_ == 0 || offset % piece_bytes_ != 0) return absl::nullopt;
  const size_t piece = offset / piece_bytes_;
  if (piece >= pieces_ || bytes != Bytes(piece)) return absl::nullopt;
  return piece;
}

namespace {

// Room beyond (W + 2) gradients for rounding up to whole chunks.
constexpr uint64_t kSlackBytes = 16 << 20;

}  // namespace

LayoutSums::LayoutSums(LayoutId layout, const View& view, std::vector<BucketSpec> buckets,
                       const Shard& share)
    : layout_(layout),
      view_(view),
      buckets_(std::move(buckets)),
      shard_(share),
      blocks_(buckets_, view.world_size) {
  uint64_t bytes = 0;
  bool has_terms_of_all = false;
  pieces_.resize(buckets_.size());
  for (size_t b = 0; b < buckets_.size(); ++b) {
    grids_.emplace_back(Bucket(static_cast<int>(b)), buckets_[b].bytes, view_.chunk_bytes,
                        share.owners, Grid::AlignmentOf(buckets_[b].dtype));
    for (size_t piece = 0; piece < grids_[b].pieces(); ++piece) {
      if (!share.Has(grids_[b].Owner(piece))) continue;
      bytes += grids_[b].Bytes(piece);
      ++pieces_per_step_;
      ++pieces_[b];
      has_terms_of_all |= !IsBroadcast(buckets_[b]);
    }
  }
  for (const Grid& grid : grids_) residuals_.emplace_back(grid.pieces());
  kept_steps_ = has_terms_of_all ? 1 : 2;
  limit_bytes_ = (view_.world_size + 2) * bytes + kSlackBytes;
  open_ = NewStep(view_.first_step);
}

int LayoutSums::TermsOf(const BucketSpec& bucket) const {
  return IsBroadcast(bucket) ? 1 : view_.world_size;
}

size_t LayoutSums::TermIndexOf(const BucketSpec& bucket, Rank rank) {
  return IsBroadcast(bucket) ? 0 : rank.value();
}

Rank LayoutSums::RankAt(const BucketSpec& bucket, size_t index) {
  return IsBroadcast(bucket) ? bucket.root : Rank(static_cast<int>(index));
}

LayoutSums::StepState LayoutSums::NewStep(Step step) const {
  StepState state;
  state.step = step;
  state.waits.resize(view_.world_size);
  state.slots.resize(buckets_.size());
  state.missing.resize(buckets_.size());
  return state;
}

// Allocated on first use: with other back ends nothing is summed here.
std::vector<LayoutSums::PieceTerms> LayoutSums::NewSlots(int bucket) const {
  const Grid& grid = grids_[bucket];
  std::vector<PieceTerms> slots(grid.pieces());
  for (size_t piece = 0; piece < slots.size(); ++piece) {
    if (!shard_.Has(grid.Owner(piece))) continue;
    PieceTerms& slot = slots[piece];
    slot.missing = TermsOf(buckets_[bucket]);
    slot.terms.resize(slot.missing);
    slot.checksums.resize(slot.missing);
    slot.has_term.resize(slot.missing);
  }
  return slots;
}

absl::StatusOr<size_t> FindPieceOfShard(const std::vector<Grid>& grids, const Shard& share,
                                        const Chunk& chunk) {
  const ChunkHeader& header = chunk.header;
  const Grid& grid = grids[header.bucket.value()];
  const uint64_t bytes = CoveredBytes(chunk);
  const absl::optional<size_t> piece = grid.Find(header.offset, bytes);
  if (!piece.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk of ", ToString(header), ": got ", bytes, " bytes, expected pieces of ",
                     grid.Bytes(0), " bytes from the bucket's start, the last one shorter"));
  }
  if (share.Has(grid.Owner(*piece))) return *piece;
  return absl::InvalidArgumentError(absl::StrCat(
      "chunk of ", ToString(header), ": got aggregator ", absl::StrJoin(share.indices, " and "),
      ", expected aggregator ", grid.Owner(*piece), " of ", share.owners));
}

absl::StatusOr<size_t> LayoutSums::FindPiece(const Chunk& chunk) const {
  const ChunkHeader& header = chunk.header;
  const int b = header.bucket.value();
  const absl::StatusOr<size_t> piece = FindPieceOfShard(grids_, shard_, chunk);
  if (!piece.ok()) return piece;
  if (!IsBroadcast(buckets_[b]) || header.rank == buckets_[b].root) return *piece;
  return absl::InvalidArgumentError(absl::StrCat("chunk of ", ToString(header),
                                                 ": expected only rank ", buckets_[b].root.value(),
                                                 " in a bucket of bytes"));
}

absl::StatusOr<Verdict> LayoutSums::Judge(const Chunk& chunk, size_t* piece) const {
  const ReceiverState receiver{view_.run_id, view_.epoch,      view_.generation,
                               open_.step,   view_.world_size, buckets_};
  const uint64_t covered = CoveredBytes(chunk);
  absl::StatusOr<Verdict> verdict = JudgeHeader(chunk.header, covered, receiver, absl::nullopt);
  if (!verdict.ok() || *verdict != Verdict::kAccept) return verdict;
  absl::StatusOr<size_t> found = FindPiece(chunk);
  if (!found.ok()) return found.status();
  *piece = *found;
  const int b = chunk.header.bucket.value();
  const std::vector<PieceTerms>& slots = open_.slots[b];
  const size_t index = TermIndexOf(buckets_[b], chunk.header.rank);
  if (!slots.empty() && slots[*found].has_term[index]) {
    return JudgeHeader(chunk.header, covered, receiver, slots[*found].checksums[index]);
  }
  if (absl::Status coded = CheckCoded(chunk); !coded.ok()) return coded;
  const uint64_t bytes = TotalBytes(chunk.payload);
  if (held_bytes_ + bytes <= limit_bytes_) return verdict;
  return absl::ResourceExhaustedError(absl::StrCat("chunk of ", ToString(chunk.header), ": holds ",
                                                   held_bytes_, " bytes, the limit is ",
                                                   limit_bytes_));
}

absl::Status LayoutSums::CheckCoded(const Chunk& chunk) const {
  const Coding* coding = CodingOf(chunk.header.dtype);
  if (coding == nullptr) return absl::OkStatus();
  return Annotate(coding->Check(chunk.payload, chunk.header.covers / sizeof(float)),
                  absl::StrCat("chunk of ", ToString(chunk.header)));
}

void LayoutSums::CountTerm(int bucket, size_t index) {
  std::vector<size_t>& missing = open_.missing[bucket];
  const auto is_receiving = [&missing, all = pieces_[bucket]] {
    const bool begun = std::find(missing.begin(), missing.end(), all) == missing.end();
    return begun && std::any_of(missing.begin(), missing.end(), [](size_t n) { return n > 0; });
  };
  const bool was_receiving = is_receiving();
  --missing[index];
  open_.receiving += static_cast<int>(is_receiving()) - static_cast<int>(was_receiving);
}

bool LayoutSums::Hold(Chunk chunk, size_t piece, absl::Time now, std::vector<Chunk>* terms) {
  const int b = chunk.header.bucket.value();
  if (open_.slots[b].empty()) {
    open_.slots[b] = NewSlots(b);
    open_.missing[b].assign(TermsOf(buckets_[b]), pieces_[b]);
  }
  PieceTerms& slot = open_.slots[b][piece];
  const size_t index = TermIndexOf(buckets_[b], chunk.header.rank);
  held_bytes_ += TotalBytes(chunk.payload);
  if (slot.missing == static_cast<int>(slot.terms.size())) slot.begun = now;
  absl::Duration& wait = open_.waits[chunk.header.rank.value()];
  wait = std::max(wait, now - slot.begun);
  slot.checksums[index] = chunk.header.checksum;
  slot.has_term[index] = true;
  CountTerm(b, index);
  slot.terms[index] = std::move(chunk);
  if (--slot.missing > 0) return false;
  *terms = std::exchange(slot.terms, std::vector<Chunk>(slot.terms.size()));
  return true;
}

std::vector<uint8_t> LayoutSums::FoldCoded(const Coding& coding, const std::vector<Chunk>& terms,
                                           const MeanChunk& mean) {
  const size_t count = mean.covers / sizeof(float);
  // Reused for all pieces: otherwise each would be returned to the system and paged in again.
  static thread_local std::vector<float> decoded;
  decoded.resize((terms.size() + 1) * count);
  std::vector<ByteSpans> pieces;
  float* out = decoded.data();
  for (const Chunk& term : terms) {
    coding.Decode(term.payload, {out, count});
    pieces.push_back({{reinterpret_cast<const uint8_t*>(out), mean.covers}});
    out += count;
  }
  gradwire::Fold(pieces, v1::DTYPE_FLOAT32, blocks_.Cut(mean.bucket, mean.offset, mean.covers),
                 absl::MakeSpan(reinterpret_cast<uint8_t*>(out), mean.covers));
  const int b = mean.bucket.value();
  std::vector<float>& residual = residuals_[b][*grids_[b].Find(mean.offset, mean.covers)];
  if (coding.has_residual()) residual.resize(count);
  return coding.EncodeMean({out, count}, absl::MakeSpan(residual));
}

std::shared_ptr<MeanChunk> LayoutSums::Fold(const std::vector<Chunk>& terms) {
  auto mean = std::make_shared<MeanChunk>();
  const Chunk& first = terms.front();
  mean->bucket = first.header.bucket;
  mean->offset = first.header.offset;
  mean->covers = CoveredBytes(first);
  for (const Chunk& term : terms) mean->term_bytes += TotalBytes(term.payload);
  if (const Coding* coding = CodingOf(first.header.dtype)) {
    const std::vector<uint8_t> payload = FoldCoded(*coding, terms, *mean);
    mean->bytes = payload.size();
    mean->data.reset(new uint8_t[mean->bytes]);
    std::copy(payload.begin(), payload.end(), mean->data.get());
    mean->checksum = Checksum({mean->data.get(), mean->bytes});
    return mean;
  }
  mean->bytes = mean->covers;
  mean->data.reset(new uint8_t[mean->bytes]);  // not zeroed: all of it is written
  if (first.header.dtype == v1::DTYPE_BYTES) {
    CopyTo(first.payload, mean->data.get());
  } else {
    std::vector<ByteSpans> pieces;
    for (const Chunk& term : terms) pieces.push_back(term.payload);
    // A mean of finite terms is finite in the same type, so no value overflows here.
    gradwire::Fold(pieces, first.header.dtype, blocks_.Cut(mean->bucket, mean->offset, mean->bytes),
                   absl::MakeSpan(mean->data.get(), mean->bytes));
  }
  mean->checksum = Checksum({mean->data.get(), mean->bytes});
  return mean;
}

std::vector<MeanResidual> LayoutSums::MeanResiduals() {
  std::vector<MeanResidual> all;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const Coding* coding = CodingOf(buckets_[b].dtype);
    if (coding == nullptr || !coding->has_residual()) continue;
    const Grid& grid = grids_[b];
    for (size_t piece = 0; piece < grid.pieces(); ++piece) {
      if (!shard_.Has(grid.Owner(piece))) continue;
      residuals_[b][piece].resize(grid.Bytes(piece) / sizeof(float));
      all.push_back({Bucket(static_cast<int>(b)), grid.Offset(piece) / sizeof(float),
                     absl::MakeSpan(residuals_[b][piece])});
    }
  }
  return all;
}

Waits LayoutSums::Publish(std::shared_ptr<MeanChunk> mean) {
  const int b = mean->bucket.value();
  mean->number_in_shard = grids_[b].NumberInShard(*grids_[b].Find(mean->offset, mean->covers));
  held_bytes_ = held_bytes_ - mean->term_bytes + mean->bytes;
  open_.results.push_back(std::move(mean));
  if (open_.results.size() < pieces_per_step_) return {};
  const Step next(open_.step.value() + 1);
  finished_.push_back(std::exchange(open_, NewStep(next)));
  if (finished_.size() > kept_steps_) {
    for (const auto& result : finished_.front().results) held_bytes_ -= result->bytes;
    finished_.pop_front();
  }
  return finished_.back().waits;
}

const std::vector<std::shared_ptr<const MeanChunk>>* LayoutSums::Results(Step step) const {
  if (step == open_.step) return &open_.results;
  for (const StepState& state : finished_) {
    if (state.step == step) return &state.results;
  }
  return nullptr;
}

bool LayoutSums::HasPieceFor(absl::FunctionRef<bool(Bucket, size_t)> wants) const {
  for (size_t b = 0; b < grids_.size(); ++b) {
    const Grid& grid = grids_[b];
    for (size_t piece = 0; piece < grid.pieces(); ++piece) {
      if (!shard_.Has(grid.Owner(piece))) continue;
      if (wants(Bucket(static_cast<int>(b)), grid.NumberInShard(piece))) return true;
    }
  }
  return false;
}

std::set<int> LayoutSums::Missing() const {
  std::set<int> of_begun;  // pieces with at least one term
  std::set<int> of_all;
  std::map<int, uint64_t> waiting;  // bytes of terms, by rank, in pieces that lack others
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const bool is_new = open_.slots[b].empty();
    const std::vector<PieceTerms> unused =
        is_new ? NewSlots(static_cast<int>(b)) : std::vector<PieceTerms>();
    const std::vector<PieceTerms>& slots = is_new ? unused : open_.slots[b];
    for (size_t piece = 0; piece < slots.size(); ++piece) {
      const PieceTerms& slot = slots[piece];
      const bool begun = slot.missing < static_cast<int>(slot.has_term.size());
      for (size_t index = 0; index < slot.has_term.size(); ++index) {
        const int rank = RankAt(buckets_[b], index).value();
        if (!slot.has_term[index]) {
          of_all.insert(rank);
          if (begun) of_begun.insert(rank);
        } else if (slot.missing > 0) {
          waiting[rank] += grids_[b].Bytes(piece);
        }
      }
    }
  }
  for (const auto& [rank, bytes] : waiting) {
    if (bytes >= kWindowBytes) of_begun.erase(rank);
  }
  return of_begun.empty() ? of_all : of_begun;
}

void LayoutSums::DropTerms() {
  for (std::vector<PieceTerms>& slots : open_.slots) {
    for (PieceTerms& slot : slots) slot.terms.assign(slot.terms.size(), Chunk());
  }
}

ChunkHeader HeaderOfMean(const View& view, LayoutId layout, const BucketSpec& bucket, Step step,
                         const MeanChunk& mean) {
  ChunkHeader header;
  header.run_id = view.run_id;
  header.epoch = view.epoch;
  header.generation = view.generation;
  header.layout = layout;
  header.step = step;
  header.bucket = mean.bucket;
  header.offset = mean.offset;
  header.total = bucket.bytes;
  header.dtype = bucket.dtype;
  header.checksum = mean.checksum;
  if (IsCoded(bucket.dtype)) header.covers = mean.covers;
  return header;
}

}  // namespace gradwire
