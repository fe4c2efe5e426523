#include "coordinator/aggregator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/fold.h"

namespace gradwire {
namespace {

// Room beyond (W + 2) gradients for rounding up to whole chunks.
constexpr uint64_t kSlackBytes = 16 << 20;

uint64_t CountChunks(uint64_t bytes, uint64_t chunk_bytes) {
  return bytes / chunk_bytes + (bytes % chunk_bytes != 0);
}

// Ranks that have a term in `bucket`: all, or rank 0 whose bytes are copied.
int TermsOf(const BucketSpec& bucket, int world_size) {
  return bucket.dtype == v1::DTYPE_BYTES ? 1 : world_size;
}

std::shared_ptr<const MeanChunk> FoldTerms(const std::vector<Chunk>& terms, v1::DType dtype) {
  auto mean = std::make_shared<MeanChunk>();
  const Chunk& first = terms.front();
  mean->bucket = first.header.bucket;
  mean->offset = first.header.offset;
  mean->bytes = TotalBytes(first.payload);
  mean->values.resize((mean->bytes + 3) / 4);
  if (dtype == v1::DTYPE_BYTES) {
    CopyTo(first.payload, reinterpret_cast<uint8_t*>(mean->values.data()));
  } else {
    std::vector<Pieces> pieces;
    for (const Chunk& term : terms) pieces.push_back(term.payload);
    Fold(pieces, absl::MakeSpan(mean->values));
  }
  mean->checksum = Checksum({mean->data(), mean->bytes});
  return mean;
}

}  // namespace

void Aggregator::Configure(const View& view, std::vector<BucketSpec> buckets) {
  MutexLock lock(&mutex_);
  view_ = view;
  buckets_ = std::move(buckets);
  uint64_t gradient_bytes = 0;
  for (const BucketSpec& bucket : buckets_) {
    gradient_bytes += bucket.bytes;
    chunks_per_step_ += CountChunks(bucket.bytes, view_.chunk_bytes);
  }
  limit_bytes_ = (view_.world_size + 2) * gradient_bytes + kSlackBytes;
  open_ = NewStep(Step(0));
  if (state_.code() == absl::StatusCode::kFailedPrecondition) state_ = absl::OkStatus();
}

void Aggregator::set_observer(std::function<void(Step, const Arrivals&)> observer) {
  MutexLock lock(&mutex_);
  observer_ = std::move(observer);
}

Aggregator::StepState Aggregator::NewStep(Step step) const {
  StepState state;
  state.step = step;
  state.arrivals.assign(view_.world_size, absl::InfinitePast());
  for (const BucketSpec& bucket : buckets_) {
    Slot slot;
    slot.missing = TermsOf(bucket, view_.world_size);
    slot.terms.resize(slot.missing);
    slot.checksums.resize(slot.missing);
    slot.has_term.resize(slot.missing);
    state.slots.emplace_back(CountChunks(bucket.bytes, view_.chunk_bytes), slot);
  }
  return state;
}

uint64_t Aggregator::GridBytes(const BucketSpec& bucket, uint64_t offset) const {
  return std::min(view_.chunk_bytes, bucket.bytes - offset);
}

absl::StatusOr<Aggregator::Slot*> Aggregator::FindSlot(const Chunk& chunk) {
  const ChunkHeader& header = chunk.header;
  const BucketSpec& bucket = buckets_[header.bucket.value()];
  const uint64_t bytes = TotalBytes(chunk.payload);
  if (header.offset % view_.chunk_bytes != 0 || header.offset >= bucket.bytes ||
      bytes != GridBytes(bucket, header.offset)) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk of ", ToString(header), ": got ", bytes, " bytes, expected chunks of ",
                     view_.chunk_bytes, " bytes from the bucket's start, the last one shorter"));
  }
  std::vector<Slot>& slots = open_.slots[header.bucket.value()];
  Slot* slot = &slots[header.offset / view_.chunk_bytes];
  if (header.rank.value() < static_cast<int>(slot->terms.size())) return slot;
  return absl::InvalidArgumentError(
      absl::StrCat("chunk of ", ToString(header), ": expected only rank 0 in a bucket of bytes"));
}

absl::StatusOr<Verdict> Aggregator::Judge(const Chunk& chunk) {
  if (!state_.ok()) return state_;
  const ReceiverState receiver{view_.run_id, view_.epoch,      view_.generation,
                               open_.step,   view_.world_size, buckets_};
  const uint64_t bytes = TotalBytes(chunk.payload);
  absl::StatusOr<Verdict> verdict = JudgeHeader(chunk.header, bytes, receiver, absl::nullopt);
  if (!verdict.ok() || *verdict != Verdict::kAccept) return verdict;
  absl::StatusOr<Slot*> slot = FindSlot(chunk);
  if (!slot.ok()) return slot.status();
  const int rank = chunk.header.rank.value();
  if ((*slot)->has_term[rank]) {
    return JudgeHeader(chunk.header, bytes, receiver, (*slot)->checksums[rank]);
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
  if (open_.results.size() < chunks_per_step_) return false;
  for (const auto& result : finished_.results) held_bytes_ -= result->bytes;
  const Step next(open_.step.value() + 1);
  finished_ = std::exchange(open_, NewStep(next));
  return true;
}

absl::StatusOr<Verdict> Aggregator::Add(Chunk chunk) {
  if (absl::Status payload = CheckPayload(chunk); !payload.ok()) return payload;
  std::vector<Chunk> terms;
  v1::DType dtype;
  {
    MutexLock lock(&mutex_);
    absl::StatusOr<Verdict> verdict = Judge(chunk);
    if (!verdict.ok() || *verdict != Verdict::kAccept) return verdict;
    absl::StatusOr<Slot*> slot = FindSlot(chunk);
    dtype = buckets_[chunk.header.bucket.value()].dtype;
    Hold(std::move(chunk), *slot);
    if ((*slot)->missing > 0) return Verdict::kAccept;
    terms = std::exchange((*slot)->terms, std::vector<Chunk>((*slot)->terms.size()));
  }
  std::shared_ptr<const MeanChunk> mean = FoldTerms(terms, dtype);
  terms.clear();
  std::function<void(Step, const Arrivals&)> observer;
  Step step;
  Arrivals arrivals;
  {
    MutexLock lock(&mutex_);
    if (!Publish(std::move(mean))) return Verdict::kAccept;
    observer = observer_;
    step = finished_.step;
    arrivals = finished_.arrivals;
  }
  if (observer) observer(step, arrivals);
  return Verdict::kAccept;
}

std::string Aggregator::MissingRanks() const {
  std::vector<int> missing;
  for (int rank = 0; rank < view_.world_size; ++rank) {
    const bool complete =
        std::all_of(open_.slots.begin(), open_.slots.end(), [rank](const std::vector<Slot>& slots) {
          return std::all_of(slots.begin(), slots.end(), [rank](const Slot& slot) {
            return rank >= static_cast<int>(slot.has_term.size()) || slot.has_term[rank];
          });
        });
    if (!complete) missing.push_back(rank);
  }
  return absl::StrJoin(missing, ", ");
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

absl::StatusOr<std::shared_ptr<const MeanChunk>> Aggregator::Next(Step step, size_t index,
                                                                  absl::Time deadline) {
  MutexLock lock(&mutex_);
  while (true) {
    if (!state_.ok()) return state_;
    const bool is_finished = open_.step.value() == step.value() + 1;
    if (!is_finished && step != open_.step) {
      return absl::OutOfRangeError(absl::StrCat("results of step ", step.value(),
                                                " are not held: the open step is ",
                                                open_.step.value()));
    }
    const StepState& state = is_finished ? finished_ : open_;
    if (index < state.results.size()) return state.results[index];
    if (is_finished) return std::shared_ptr<const MeanChunk>();
    if (changed_.WaitWithDeadline(&mutex_, deadline) && step == open_.step &&
        index >= open_.results.size()) {
      return absl::DeadlineExceededError(absl::StrCat("step ", step.value(), ": gradients of rank ",
                                                      MissingRanks(), " are missing"));
    }
  }
}

void Aggregator::Abort(absl::Status reason) {
  MutexLock lock(&mutex_);
  state_ = std::move(reason);
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
