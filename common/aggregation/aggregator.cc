#include "common/aggregation/aggregator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/fold/fold.h"

namespace gradwire {
namespace {

// Room beyond (W + 2) gradients for rounding up to whole chunks.
constexpr uint64_t kSlackBytes = 16 << 20;

// Ranks that have a term in `bucket`: all, or rank 0 whose bytes are copied.
int TermsOf(const BucketSpec& bucket, int world_size) {
  return bucket.dtype == v1::DTYPE_BYTES ? 1 : world_size;
}

std::shared_ptr<MeanChunk> FoldTerms(const std::vector<Chunk>& terms, v1::DType dtype) {
  auto mean = std::make_shared<MeanChunk>();
  const Chunk& first = terms.front();
  mean->bucket = first.header.bucket;
  mean->offset = first.header.offset;
  mean->bytes = TotalBytes(first.payload);
  mean->data.reset(new uint8_t[mean->bytes]);  // not zeroed: all of it is written
  if (dtype == v1::DTYPE_BYTES) {
    CopyTo(first.payload, mean->data.get());
  } else {
    std::vector<Pieces> pieces;
    for (const Chunk& term : terms) pieces.push_back(term.payload);
    // A mean of finite terms is finite in the same type, so nothing overflows here.
    Fold(pieces, dtype, absl::MakeSpan(mean->data.get(), mean->bytes));
  }
  mean->checksum = Checksum({mean->data.get(), mean->bytes});
  return mean;
}

}  // namespace

void Aggregator::Configure(const View& view, std::vector<BucketSpec> buckets, const Share& share) {
  MutexLock lock(&mutex_);
  view_ = view;
  buckets_ = std::move(buckets);
  share_ = share;
  uint64_t bytes = 0;
  bool has_terms_of_all = false;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    grids_.emplace_back(Bucket(static_cast<int>(b)), buckets_[b].bytes, view_.chunk_bytes,
                        share.owners);
    for (size_t piece = 0; piece < grids_[b].pieces(); ++piece) {
      if (grids_[b].Owner(piece) != share.index) continue;
      bytes += grids_[b].Bytes(piece);
      ++pieces_per_step_;
      has_terms_of_all |= buckets_[b].dtype != v1::DTYPE_BYTES;
    }
  }
  kept_steps_ = has_terms_of_all ? 1 : 2;
  limit_bytes_ = (view_.world_size + 2) * bytes + kSlackBytes;
  open_ = NewStep(Step(0));
  if (state_.code() == absl::StatusCode::kFailedPrecondition) state_ = absl::OkStatus();
  changed_.NotifyAll();
}

absl::Status Aggregator::WaitUntilConfigured(absl::Time deadline) {
  MutexLock lock(&mutex_);
  while (absl::IsFailedPrecondition(state_)) {
    if (changed_.WaitWithDeadline(&mutex_, deadline)) break;
  }
  return state_;
}

void Aggregator::set_observer(std::function<void(Step, const Arrivals&)> observer) {
  MutexLock lock(&mutex_);
  observer_ = std::move(observer);
}

Aggregator::StepState Aggregator::NewStep(Step step) const {
  StepState state;
  state.step = step;
  state.arrivals.assign(view_.world_size, absl::InfinitePast());
  for (size_t b = 0; b < buckets_.size(); ++b) {
    state.slots.emplace_back(grids_[b].pieces());
    for (size_t piece = 0; piece < grids_[b].pieces(); ++piece) {
      if (grids_[b].Owner(piece) != share_.index) continue;
      Slot& slot = state.slots[b][piece];
      slot.missing = TermsOf(buckets_[b], view_.world_size);
      slot.terms.resize(slot.missing);
      slot.checksums.resize(slot.missing);
      slot.has_term.resize(slot.missing);
    }
  }
  return state;
}

absl::StatusOr<size_t> Aggregator::FindPiece(const Chunk& chunk) const {
  const ChunkHeader& header = chunk.header;
  const int b = header.bucket.value();
  const uint64_t bytes = TotalBytes(chunk.payload);
  const absl::optional<size_t> piece = grids_[b].Find(header.offset, bytes);
  if (!piece.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk of ", ToString(header), ": got ", bytes, " bytes, expected pieces of ",
                     grids_[b].Bytes(0), " bytes from the bucket's start, the last one shorter"));
  }
  if (grids_[b].Owner(*piece) != share_.index) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk of ", ToString(header), ": got aggregator ", share_.index,
                     ", expected aggregator ", grids_[b].Owner(*piece), " of ", share_.owners));
  }
  if (header.rank.value() < TermsOf(buckets_[b], view_.world_size)) return *piece;
  return absl::InvalidArgumentError(
      absl::StrCat("chunk of ", ToString(header), ": expected only rank 0 in a bucket of bytes"));
}

absl::StatusOr<Verdict> Aggregator::Judge(const Chunk& chunk, size_t* piece) {
  if (!state_.ok()) return state_;
  const ReceiverState receiver{view_.run_id, view_.epoch,      view_.generation,
                               open_.step,   view_.world_size, buckets_};
  const uint64_t bytes = TotalBytes(chunk.payload);
  absl::StatusOr<Verdict> verdict = JudgeHeader(chunk.header, bytes, receiver, absl::nullopt);
  if (!verdict.ok() || *verdict != Verdict::kAccept) return verdict;
  absl::StatusOr<size_t> found = FindPiece(chunk);
  if (!found.ok()) return found.status();
  *piece = *found;
  const Slot& slot = open_.slots[chunk.header.bucket.value()][*found];
  const int rank = chunk.header.rank.value();
  if (slot.has_term[rank]) {
    return JudgeHeader(chunk.header, bytes, receiver, slot.checksums[rank]);
  }
  if (held_bytes_ + bytes <= limit_bytes_) return verdict;
  return absl::ResourceExhaustedError(absl::StrCat("chunk of ", ToString(chunk.header), ": holds ",
                                                   held_bytes_, " bytes, the limit is ",
                                                   limit_bytes_));
}

void Aggregator::Hold(Chunk chunk, Slot* slot) {
  const int rank = chunk.header.rank.value();
  held_bytes_ += TotalBytes(chunk.payload);
  open_.arrivals[rank] = absl::Now();
  slot->checksums[rank] = chunk.header.checksum;
  slot->has_term[rank] = true;
  slot->terms[rank] = std::move(chunk);
  --slot->missing;
}

bool Aggregator::Publish(std::shared_ptr<const MeanChunk> mean) {
  const BucketSpec& bucket = buckets_[mean->bucket.value()];
  held_bytes_ -= TermsOf(bucket, view_.world_size) * mean->bytes;
  held_bytes_ += mean->bytes;
  open_.results.push_back(std::move(mean));
  changed_.NotifyAll();
  if (open_.results.size() < pieces_per_step_) return false;
  const Step next(open_.step.value() + 1);
  finished_.push_back(std::exchange(open_, NewStep(next)));
  if (finished_.size() > kept_steps_) {
    for (const auto& result : finished_.front().results) held_bytes_ -= result->bytes;
    finished_.pop_front();
  }
  return true;
}

absl::StatusOr<Verdict> Aggregator::Add(Chunk chunk) {
  if (absl::Status payload = CheckPayload(chunk); !payload.ok()) return payload;
  return AddOwn(std::move(chunk));
}

absl::StatusOr<Verdict> Aggregator::AddOwn(Chunk chunk) {
  std::vector<Chunk> terms;
  v1::DType dtype;
  size_t number_in_share;
  const Step step = chunk.header.step;
  {
    size_t piece;
    MutexLock lock(&mutex_);
    absl::StatusOr<Verdict> verdict = Judge(chunk, &piece);
    if (!verdict.ok() || *verdict != Verdict::kAccept) return verdict;
    dtype = buckets_[chunk.header.bucket.value()].dtype;
    const int bucket = chunk.header.bucket.value();
    number_in_share = grids_[bucket].NumberInShare(piece);
    Slot& slot = open_.slots[bucket][piece];
    Hold(std::move(chunk), &slot);
    if (slot.missing > 0) return Verdict::kAccept;
    terms = std::exchange(slot.terms, std::vector<Chunk>(slot.terms.size()));
  }
  const absl::Time begin = on_fold_ ? absl::Now() : absl::Time();
  std::shared_ptr<MeanChunk> mean = FoldTerms(terms, dtype);
  if (on_fold_) {
    on_fold_({TraceSpan::Lane::kAggregation, "fold", step, mean->bucket, begin, absl::Now()});
  }
  mean->number_in_share = number_in_share;
  terms.clear();
  Finish(std::move(mean));
  return Verdict::kAccept;
}

void Aggregator::Finish(std::shared_ptr<const MeanChunk> mean) {
  std::function<void(Step, const Arrivals&)> observer;
  Step step;
  Arrivals arrivals;
  {
    MutexLock lock(&mutex_);
    if (!Publish(std::move(mean))) return;
    observer = observer_;
    step = finished_.back().step;
    arrivals = finished_.back().arrivals;
  }
  if (observer) observer(step, arrivals);
}

std::set<int> Aggregator::Missing() const {
  std::set<int> of_begun;  // pieces that have some term
  std::set<int> of_all;
  for (const std::vector<Slot>& slots : open_.slots) {
    for (const Slot& slot : slots) {
      const bool begun = slot.missing < static_cast<int>(slot.has_term.size());
      for (int rank = 0; rank < static_cast<int>(slot.has_term.size()); ++rank) {
        if (slot.has_term[rank]) continue;
        of_all.insert(rank);
        if (begun) of_begun.insert(rank);
      }
    }
  }
  return of_begun.empty() ? of_all : of_begun;
}

std::vector<Rank> Aggregator::MissingRanks(Step step) const {
  MutexLock lock(&mutex_);
  std::vector<Rank> missing;
  if (step != open_.step) return missing;
  for (int rank : Missing()) missing.emplace_back(rank);
  return missing;
}

absl::Status Aggregator::CheckReader(const RunId& run_id, CoordinatorEpoch epoch,
                                     Generation generation) const {
  MutexLock lock(&mutex_);
  if (!state_.ok()) return state_;
  if (run_id != view_.run_id) {
    return absl::PermissionDeniedError(
        absl::StrCat("reader of run ", ToHex(run_id), ", expected run ", ToHex(view_.run_id)));
  }
  if (epoch == view_.epoch && generation == view_.generation) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("reader of epoch ", epoch.value(), " generation ",
                                         generation.value(), ", this side is at ",
                                         view_.epoch.value(), " and ", view_.generation.value()));
}

const Aggregator::StepState* Aggregator::Find(Step step) const {
  if (step == open_.step) return &open_;
  for (const StepState& state : finished_) {
    if (state.step == step) return &state;
  }
  return nullptr;
}

absl::StatusOr<std::shared_ptr<const MeanChunk>> Aggregator::Next(Step step, size_t index,
                                                                  absl::Time deadline,
                                                                  bool continues) {
  MutexLock lock(&mutex_);
  while (true) {
    if (!state_.ok()) return state_;
    const StepState* state = Find(step);
    if (state == nullptr) {
      if (continues && step < open_.step) return std::shared_ptr<const MeanChunk>();
      return absl::OutOfRangeError(absl::StrCat("results of step ", step.value(),
                                                " are not held: the open step is ",
                                                open_.step.value()));
    }
    if (index < state->results.size()) return state->results[index];
    if (step != open_.step) return std::shared_ptr<const MeanChunk>();
    if (changed_.WaitWithDeadline(&mutex_, deadline) && step == open_.step &&
        index >= open_.results.size()) {
      return absl::DeadlineExceededError(absl::StrCat("step ", step.value(), ": gradients of rank ",
                                                      absl::StrJoin(Missing(), ", "),
                                                      " are missing"));
    }
  }
}

void Aggregator::Abort(absl::Status reason) {
  MutexLock lock(&mutex_);
  state_ = std::move(reason);
  // Terms of this process go back to their owner.
  for (std::vector<Slot>& slots : open_.slots) {
    for (Slot& slot : slots) slot.terms.assign(slot.terms.size(), Chunk());
  }
  changed_.NotifyAll();
}

ChunkHeader Aggregator::HeaderFor(Step step, const MeanChunk& mean) const {
  MutexLock lock(&mutex_);
  const BucketSpec& bucket = buckets_[mean.bucket.value()];
  return {view_.run_id, view_.epoch,  view_.generation, step,          Rank(0), mean.bucket,
          mean.offset,  bucket.bytes, bucket.dtype,     mean.checksum, 0};
}

uint64_t Aggregator::held_bytes() const {
  MutexLock lock(&mutex_);
  return held_bytes_;
}

}  // namespace gradwire
