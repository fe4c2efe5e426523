#include "common/parameter_server/parameter_piece.h"

#include <algorithm>
#include <utility>

#include "common/fold/fold.h"

namespace gradwire {
namespace {

// Memory for a gradient, reused for all pieces.
absl::Span<float> Scratch(uint64_t bytes) {
  static thread_local std::vector<float> scratch;
  scratch.resize(bytes / sizeof(float));
  return absl::MakeSpan(scratch);
}

absl::Span<uint8_t> BytesOf(absl::Span<float> floats) {
  return {reinterpret_cast<uint8_t*>(floats.data()), floats.size() * sizeof(float)};
}

}  // namespace

StalenessBound BoundOf(const v1::Serving& serving) {
  StalenessBound bound;
  if (serving.has_staleness()) bound.staleness = serving.staleness();
  bound.steps = serving.steps();
  bound.meet_every = serving.meet_every();
  return bound;
}

uint64_t StaleClocks::slowest() const { return *std::min_element(clocks_.begin(), clocks_.end()); }
uint64_t StaleClocks::fastest() const { return *std::max_element(clocks_.begin(), clocks_.end()); }

uint64_t StaleClocks::Needed(uint64_t step) const {
  const bool meet = bound_.meet_every > 0 && step % bound_.meet_every == 0;
  if (meet || step == bound_.steps) return step;
  if (!bound_.staleness.has_value() || *bound_.staleness >= step) return 0;
  return step - *bound_.staleness;
}

ParameterPiece::ParameterPiece(Position position, const ServerClients* ranks,
                               const StalenessBound& bound)
    : position_(std::move(position)),
      ranks_(*ranks),
      folds_(bound.staleness == uint64_t{0}),
      clocks_(ranks->world_size, bound),
      wanted_(ranks->of_reader.size(), Step(0)) {}

Step ParameterPiece::NextOf(Rank rank) const { return Step(begun() ? clocks_.clock(rank) + 1 : 0); }

std::vector<ParameterPiece::Answer> ParameterPiece::Begin(const ByteSpans& payload,
                                                          const MakePieceOptimizer& make) {
  data_.reset(new uint8_t[position_.bytes]);
  CopyTo(payload, data_.get());
  if (!IsBroadcast(position_.spec)) {
    optimizer_ = make({reinterpret_cast<float*>(data_.get()), position_.bytes / sizeof(float)});
  }
  return TakeDue();
}

std::vector<ParameterPiece::Answer> ParameterPiece::Push(Chunk chunk) {
  const Rank rank = chunk.header.rank;
  const Step step = chunk.header.step;
  clocks_.Advance(rank);
  Take(std::move(chunk));
  for (size_t reader = 0; reader < wanted_.size(); ++reader) {
    const std::vector<Rank>& carried = ranks_.of_reader[reader];
    if (std::count(carried.begin(), carried.end(), rank) == 0) continue;
    const bool all = std::all_of(carried.begin(), carried.end(),
                                 [&](Rank one) { return clocks_.clock(one) >= step.value(); });
    if (all) wanted_[reader] = step;
  }
  return TakeDue();
}

void ParameterPiece::Take(Chunk chunk) {
  if (IsBroadcast(position_.spec)) {
    if (chunk.header.rank != position_.spec.root) return;
    CopyTo(chunk.payload, data_.get());
  } else if (folds_) {
    return HoldForFold(std::move(chunk));
  } else {
    const absl::Span<float> gradient = Scratch(position_.bytes);
    CopyTo(chunk.payload, BytesOf(gradient).data());
    optimizer_->Step(gradient.data(), chunk.header.clocks.rate / ranks_.world_size);
  }
  snapshot_ = nullptr;
}

// No rank pushes a second term before it has received the model with its first one.
void ParameterPiece::HoldForFold(Chunk chunk) {
  terms_.push_back(std::move(chunk));
  if (terms_.size() < static_cast<size_t>(ranks_.world_size)) return;
  std::sort(terms_.begin(), terms_.end(),
            [](const Chunk& a, const Chunk& b) { return a.header.rank < b.header.rank; });
  std::vector<ByteSpans> payloads;
  for (const Chunk& term : terms_) payloads.push_back(term.payload);
  const absl::Span<float> mean = Scratch(position_.bytes);
  Fold(payloads, position_.spec.dtype, position_.ranges, BytesOf(mean));
  optimizer_->Step(mean.data(), terms_.front().header.clocks.rate);
  terms_.clear();
  snapshot_ = nullptr;
}

std::vector<ParameterPiece::Answer> ParameterPiece::TakeDue() {
  std::vector<Answer> answers;
  for (size_t reader = 0; reader < wanted_.size(); ++reader) {
    absl::optional<Step>& step = wanted_[reader];
    if (!step.has_value() || !clocks_.MayBegin(step->value())) continue;
    const ChunkClocks clocks{0, clocks_.slowest(), clocks_.fastest()};
    answers.push_back({reader, *step, clocks, Snapshot()});
    step.reset();
  }
  return answers;
}

// A worker gets the piece as it is at its answer, even if it changes before it is sent.
std::shared_ptr<const MeanChunk> ParameterPiece::Snapshot() {
  if (snapshot_ != nullptr) return snapshot_;
  auto snapshot = std::make_shared<MeanChunk>();
  snapshot->bucket = position_.bucket;
  snapshot->number_in_shard = position_.number_in_shard;
  snapshot->offset = position_.offset;
  snapshot->covers = snapshot->bytes = position_.bytes;
  snapshot->data.reset(new uint8_t[position_.bytes]);
  std::copy(data_.get(), data_.get() + position_.bytes, snapshot->data.get());
  snapshot->checksum = Checksum({snapshot->data.get(), snapshot->bytes});
  return snapshot_ = std::move(snapshot);
}

std::vector<Rank> ParameterPiece::MissingFor(Step step) const {
  std::vector<Rank> missing;
  for (int rank = 0; rank < ranks_.world_size; ++rank) {
    if (!begun() && Rank(rank) != position_.spec.root) continue;
    if (!begun() || clocks_.clock(Rank(rank)) < clocks_.Needed(step.value())) {
      missing.emplace_back(rank);
    }
  }
  return missing;
}

}  // namespace gradwire
