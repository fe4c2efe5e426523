#include "common/parameter_server/parameter_server.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace gradwire {

ParameterServer::ParameterServer(LayoutId layout, const View& view, std::vector<BucketSpec> buckets,
                                 const Shard& share, const v1::Serving& serving,
                                 LoadOptimizers load)
    : layout_(layout),
      view_(view),
      buckets_(std::move(buckets)),
      shard_(share),
      serving_(serving),
      load_(std::move(load)),
      blocks_(buckets_, view.world_size) {
  ranks_.world_size = view_.world_size;
  for (const Member& member : view_.members) ranks_.of_reader.push_back(member.ranks);
  answers_.resize(view_.members.size());
  MakePieces(BoundOf(serving));
}

void ParameterServer::MakePieces(const StalenessBound& bound) {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket bucket(static_cast<int>(b));
    const BucketSpec& spec = buckets_[b];
    grids_.emplace_back(bucket, spec.bytes, view_.chunk_bytes, shard_.owners,
                        Grid::AlignmentOf(spec.dtype));
    const Grid& grid = grids_.back();
    slots_.emplace_back(grid.pieces());
    for (size_t i = 0; i < grid.pieces(); ++i) {
      if (!shard_.Has(grid.Owner(i))) continue;
      ParameterPiece::Position position{
          bucket, spec, grid.Offset(i), grid.Bytes(i), grid.NumberInShard(i), {}};
      if (!IsBroadcast(spec))
        position.ranges = blocks_.Cut(bucket, position.offset, position.bytes);
      held_bytes_ += position.bytes;
      slots_[b][i] =
          std::make_unique<LockedPiece>(ParameterPiece(std::move(position), &ranks_, bound));
    }
  }
}

absl::StatusOr<Verdict> ParameterServer::Judge(const Chunk& chunk,
                                               const ParameterPiece& piece) const {
  const ChunkHeader& header = chunk.header;
  const Rank root = buckets_[header.bucket.value()].root;
  if (!piece.begun() && header.step == Step(0) && header.rank != root) {
    return absl::InvalidArgumentError(absl::StrCat("chunk of ", ToString(header),
                                                   ": expected the model of rank ", root.value(),
                                                   " in step 0"));
  }
  const absl::StatusOr<Verdict> verdict =
      JudgeHeader(header, CoveredBytes(chunk),
                  {view_.run_id, view_.epoch, view_.generation, piece.NextOf(header.rank),
                   view_.world_size, buckets_},
                  absl::nullopt);
  if (!verdict.ok() || *verdict != Verdict::kAccept || !piece.begun()) return verdict;
  if (piece.MayPush(header.rank)) return verdict;
  return absl::OutOfRangeError(
      absl::StrCat("chunk of ", ToString(header),
                   ": expected it after the model of the previous step, for which ",
                   piece.MissingFor(Step(header.step.value() - 1)).size(), " ranks are missing"));
}

const absl::StatusOr<MakePieceOptimizer>& ParameterServer::Optimizers() {
  std::call_once(loaded_, [this] { optimizers_ = load_(serving_); });
  return optimizers_;
}

absl::StatusOr<Verdict> ParameterServer::Add(Chunk chunk, bool* answered) {
  const ChunkHeader header = chunk.header;
  // The grid contains only existing buckets and ranks.
  const absl::StatusOr<Verdict> possible = JudgeHeader(
      header, CoveredBytes(chunk),
      {view_.run_id, view_.epoch, view_.generation, header.step, view_.world_size, buckets_},
      absl::nullopt);
  if (!possible.ok() || *possible != Verdict::kAccept) return possible;
  const absl::StatusOr<size_t> index = FindPieceOfShard(grids_, shard_, chunk);
  if (!index.ok()) return index.status();
  const absl::StatusOr<MakePieceOptimizer>& optimizers = Optimizers();
  if (!optimizers.ok()) return optimizers.status();
  LockedPiece& slot = *slots_[header.bucket.value()][*index];
  std::vector<ParameterPiece::Answer> answers;
  {
    MutexLock lock(&slot.mutex);
    const absl::StatusOr<Verdict> verdict = Judge(chunk, slot.piece);
    if (!verdict.ok() || *verdict != Verdict::kAccept) return verdict;
    answers = slot.piece.begun() ? slot.piece.Push(std::move(chunk))
                                 : slot.piece.Begin(chunk.payload, *optimizers);
  }
  *answered = !answers.empty();
  Queue(std::move(answers));
  return Verdict::kAccept;
}

void ParameterServer::Queue(std::vector<ParameterPiece::Answer> answers) {
  MutexLock lock(&mutex_);
  for (ParameterPiece::Answer& answer : answers) {
    const BucketSpec& spec = buckets_[answer.model->bucket.value()];
    ChunkHeader header = HeaderOfMean(view_, layout_, spec, answer.step, *answer.model);
    header.clocks = answer.clocks;
    answers_[answer.reader].push_back({header, std::move(answer.model)});
  }
}

absl::optional<ParameterServer::Answer> ParameterServer::Next(Incarnation reader) {
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < answers_.size(); ++i) {
    if (view_.members[i].incarnation != reader || answers_[i].empty()) continue;
    Answer answer = std::move(answers_[i].front());
    answers_[i].pop_front();
    return answer;
  }
  return absl::nullopt;
}

std::set<int> ParameterServer::Missing(Step step) const {
  std::set<int> missing;
  for (const auto& slots : slots_) {
    for (const auto& slot : slots) {
      if (slot == nullptr) continue;
      MutexLock lock(&slot->mutex);
      for (const Rank rank : slot->piece.MissingFor(step)) missing.insert(rank.value());
    }
  }
  return missing;
}

}  // namespace gradwire
