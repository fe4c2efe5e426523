#include "tests/simulate/site.h"

#include <algorithm>
#include <utility>

namespace gradwire::simulate {
namespace {

// As AggregationService's.
constexpr absl::Duration kViewTimeout = absl::Seconds(10);

// For Aggregator::Next, which then does not wait.
const absl::Time kAtOnce = absl::UnixEpoch();

}  // namespace

void Site::Serve(const View& view, const Shard& share) {
  view_ = view;
  has_layouts_ = false;
  AggregatorHooks hooks;
  hooks.on_fold = [this](const TraceSpan&) { folded_ = true; };
  aggregator_ = std::make_shared<Aggregator>(view, share, std::move(hooks));
}

void Site::AddLayout(LayoutId layout, const std::vector<BucketSpec>& buckets) {
  if (aggregator_ == nullptr) return;
  aggregator_->AddLayout(layout, buckets);
  has_layouts_ = true;
  Pump();
}

void Site::Abort(const absl::Status& reason) {
  if (aggregator_ == nullptr) return;
  aggregator_->Abort(reason);
  has_layouts_ = true;  // who waits for them hears of the end
  Pump();
}

void Site::Close() {
  aggregator_.reset();
  waiting_.clear();
  readers_.clear();
}

bool Site::IsToCome(Generation generation) const {
  return aggregator_ == nullptr || !has_layouts_ || view_.generation < generation;
}

void Site::Pump() {
  const auto waiting = std::exchange(waiting_, {});
  for (const auto& sender : waiting) {
    TakeAll(sender.get());
    if (!sender->waiting.empty()) waiting_.push_back(sender);
  }
  SendMeans();
}

void Site::OnChunk(const std::shared_ptr<Sender>& sender, Chunk chunk) {
  if (sender->ended) return;
  const bool is_first = sender->waiting.empty();
  sender->waiting.push_back(std::move(chunk));
  if (!is_first) return;
  TakeAll(sender.get());
  if (sender->waiting.empty()) return;
  waiting_.push_back(sender);
  scene_->events.After(kViewTimeout, [this, sender] {
    if (sender->waiting.empty() || aggregator_ != nullptr || sender->ended) return;
    sender->ended = true;
    sender->on_end(absl::DeadlineExceededError("the run did not begin here"));
  });
}

// One after the other, as they came, until one waits for its view.
void Site::TakeAll(Sender* sender) {
  while (!sender->ended && !sender->waiting.empty()) {
    if (sender->aggregator == nullptr) {
      if (IsToCome(sender->waiting.front().header.generation)) return;
      sender->aggregator = aggregator_;
    }
    Chunk chunk = std::move(sender->waiting.front());
    sender->waiting.pop_front();
    Take(sender, std::move(chunk));
  }
  sender->waiting.clear();
}

void Site::Take(Sender* sender, Chunk chunk) {
  const Generation made_in = chunk.header.generation;
  if (scene_->plant != Plant::kNone) Falsify(sender, &chunk);
  const absl::StatusOr<Verdict> verdict = sender->aggregator->Add(std::move(chunk));
  if (!verdict.ok()) {
    sender->ended = true;
    return sender->on_end(verdict.status());
  }
  if (*verdict != Verdict::kAccept) return;
  scene_->checks.OnTermHeld(sender->who, made_in, sender->aggregator->view());
  if (std::exchange(folded_, false)) SendMeans();
}

// The plants that are about terms.
void Site::Falsify(Sender* sender, Chunk* chunk) {
  const bool is_evicted = !IsMember(view_, sender->who);
  if (scene_->IsPlanted(Plant::kNoGenerationCheck) ||
      (is_evicted && scene_->IsPlanted(Plant::kEvictedAccepted))) {
    chunk->header.generation = view_.generation;
    sender->aggregator = aggregator_;
  }
  if (chunk->header.dtype != v1::DTYPE_BYTES) FalsifyRank(chunk);
}

void Site::FalsifyRank(Chunk* chunk) {
  const ChunkHeader& header = chunk->header;
  std::set<int>& seen = ranks_seen_[{header.generation, header.step, header.bucket, header.offset}];
  const auto arrivals = static_cast<int>(seen.size());
  const bool is_new = seen.insert(header.rank.value()).second;
  if (is_new && scene_->IsPlanted(Plant::kOrderOfArrival)) {
    chunk->header.rank = Rank(arrivals);
  }
  if (is_new || !scene_->IsPlanted(Plant::kNoDedupe)) return;
  for (int rank = 0; rank < view_.world_size; ++rank) {
    if (seen.count(rank) > 0) continue;
    chunk->header.rank = Rank(rank);
    return;
  }
}

void Site::OnReader(std::shared_ptr<Reader> reader) {
  readers_.push_back(std::move(reader));
  SendMeans();
}

void Site::SendMeans() {
  const auto readers = readers_;  // ends may lead to others
  for (const auto& reader : readers) {
    if (!reader->ended) SendMeans(reader.get());
  }
  readers_.erase(std::remove_if(readers_.begin(), readers_.end(),
                                [](const auto& reader) { return reader->ended; }),
                 readers_.end());
}

void Site::SendMeans(Reader* reader) {
  absl::Status status;
  if (reader->aggregator == nullptr) {
    if (IsToCome(reader->generation)) return;
    reader->aggregator = aggregator_;
    status = aggregator_->CheckReader(reader->run_id, reader->epoch, reader->generation);
  }
  while (status.ok()) {
    const absl::StatusOr<Mean> mean = reader->aggregator->Next(&reader->cursor, kAtOnce);
    if (absl::IsDeadlineExceeded(mean.status())) return;
    status = mean.status();
    if (!mean.ok() || mean->chunk->number_in_shard % reader->lanes != reader->lane) continue;
    reader->on_mean(*mean);
  }
  reader->ended = true;
  reader->on_end(status);
}

}  // namespace gradwire::simulate
