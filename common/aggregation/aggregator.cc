#include "common/aggregation/aggregator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"

namespace gradwire {
namespace {

// A peer may learn of a layout a moment earlier than this side.
constexpr absl::Duration kLayoutTimeout = absl::Seconds(10);

}  // namespace

Aggregator::Aggregator(const View& view, const Shard& share, AggregatorHooks hooks)
    : view_(view), shard_(share), hooks_(std::move(hooks)), clock_(SteadyNow()) {}

void Aggregator::AddLayout(LayoutId layout, std::vector<BucketSpec> buckets,
                           const v1::Serving& serving, bool is_evaluation) {
  MutexLock lock(&mutex_);
  if (is_evaluation) evaluations_.insert(layout);
  if (IsBroadcast(buckets.front())) of_bytes_.insert(layout);
  if (serving.optimizer().empty()) {
    layouts_.try_emplace(layout, layout, view_, std::move(buckets), shard_);
  } else {
    models_.emplace(layout, std::make_unique<ParameterServer>(layout, view_, std::move(buckets),
                                                              shard_, serving));
  }
  changed_.NotifyAll();
}

absl::Status Aggregator::WaitForLayout(const ChunkHeader& header) {
  const absl::Time deadline = SteadyNow() + kLayoutTimeout;
  while (state_.ok()) {
    const LayoutId layout = header.layout;
    if (layouts_.count(layout) > 0 || models_.count(layout) > 0) return absl::OkStatus();
    if (!changed_.WaitWithDeadline(&mutex_, deadline)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "chunk of ", ToString(header), ": got layout ", header.layout.value(),
        ", which was not agreed; expected a layout below ", layouts_.size() + models_.size()));
  }
  return state_;
}

absl::StatusOr<Verdict> Aggregator::JudgeEarly(const ChunkHeader& header) {
  if (!state_.ok()) return state_;
  const absl::StatusOr<Verdict> of_view =
      JudgeView(header, {view_.run_id, view_.epoch, view_.generation, {}, 0, {}});
  if (!of_view.ok() || *of_view != Verdict::kAccept) return of_view;
  if (absl::Status there = WaitForLayout(header); !there.ok()) return there;
  return Verdict::kAccept;
}

absl::StatusOr<Verdict> Aggregator::Hold(Chunk* chunk, std::vector<Chunk>* terms,
                                         ParameterServer** model) {
  MutexLock lock(&mutex_);
  absl::StatusOr<Verdict> verdict = JudgeEarly(chunk->header);
  if (!verdict.ok() || *verdict != Verdict::kAccept) return verdict;
  const auto served = models_.find(chunk->header.layout);
  if (served != models_.end()) {
    *model = served->second.get();
    return verdict;
  }
  LayoutSums& sums = layouts_.at(chunk->header.layout);
  size_t piece;
  verdict = sums.Judge(*chunk, &piece);
  if (!verdict.ok() || *verdict != Verdict::kAccept) return verdict;
  const absl::Time now = SteadyNow();
  const int was_receiving = sums.receiving();
  AggregationClock::Activity& activity = clock_.At(now);
  if (sums.Hold(std::move(*chunk), piece, now, terms)) ++activity.folds;
  activity.receiving += sums.receiving() - was_receiving;
  return verdict;
}

absl::StatusOr<Verdict> Aggregator::Serve(ParameterServer* model, Chunk chunk) {
  bool answered = false;
  absl::StatusOr<Verdict> verdict = model->Add(std::move(chunk), &answered);
  // Without an optimizer no worker ever gets an answer, so the waiting ones receive the reason.
  if (absl::IsFailedPrecondition(verdict.status())) Abort(verdict.status());
  MutexLock lock(&mutex_);
  if (answered) changed_.NotifyAll();
  return verdict;
}

absl::StatusOr<Verdict> Aggregator::Add(Chunk chunk) {
  if (absl::Status payload = CheckPayload(chunk); !payload.ok()) return payload;
  return AddOwn(std::move(chunk));
}

absl::StatusOr<Verdict> Aggregator::AddOwn(Chunk chunk) {
  const LayoutId layout = chunk.header.layout;
  const Step step = chunk.header.step;
  std::vector<Chunk> terms;
  ParameterServer* model = nullptr;
  absl::StatusOr<Verdict> verdict = Hold(&chunk, &terms, &model);
  if (model != nullptr) return Serve(model, std::move(chunk));
  if (!terms.empty()) FoldAndPublish(layout, step, std::move(terms));
  return verdict;
}

void Aggregator::FoldAndPublish(LayoutId layout, Step step, std::vector<Chunk> terms) {
  const absl::Time begin = hooks_.on_fold ? SteadyNow() : absl::Time();
  LayoutSums* sums;
  bool is_told;
  {
    MutexLock lock(&mutex_);
    sums = &layouts_.at(layout);
    is_told = hooks_.on_fold && of_bytes_.count(layout) == 0;
  }
  std::shared_ptr<MeanChunk> mean = sums->Fold(terms);
  if (is_told) {
    hooks_.on_fold({TraceSpan::Lane::kAggregation, "fold", step, mean->bucket, begin, SteadyNow()});
  }
  terms.clear();  // returns the memory to its owner before any reader learns of the mean
  Waits waits;
  absl::optional<AggregationTimes> iteration;
  {
    MutexLock lock(&mutex_);
    --clock_.At(SteadyNow()).folds;
    waits = layouts_.at(layout).Publish(std::move(mean));
    if (!waits.empty()) iteration = EndStep(layout);
    if (evaluations_.count(layout) > 0) waits.clear();
    changed_.NotifyAll();
  }
  if (!waits.empty() && hooks_.on_step) hooks_.on_step(layout, step, waits);
  if (iteration.has_value() && hooks_.on_iteration) hooks_.on_iteration(*iteration);
}

absl::optional<AggregationTimes> Aggregator::EndStep(LayoutId layout) {
  if (evaluations_.count(layout) > 0) clock_.Spoil();
  // Such as those of a program's collectives, of which an iteration may have any number.
  if (of_bytes_.count(layout) > 0) return absl::nullopt;
  return clock_.EndStep(layout, SteadyNow());
}

void Aggregator::CountSend(MeanCursor* cursor, bool sends) {
  clock_.At(SteadyNow()).sends += static_cast<int>(sends) - static_cast<int>(cursor->sends);
  cursor->sends = sends;
}

std::vector<MeanResidual> Aggregator::MeanResiduals(LayoutId layout) {
  MutexLock lock(&mutex_);
  const auto found = layouts_.find(layout);
  return found == layouts_.end() ? std::vector<MeanResidual>() : found->second.MeanResiduals();
}

std::vector<Rank> Aggregator::MissingRanks(LayoutId layout, Step step) const {
  MutexLock lock(&mutex_);
  std::set<int> missing;
  const auto sums = layouts_.find(layout);
  const auto model = models_.find(layout);
  if (model != models_.end()) {
    missing = model->second->Missing(step);
  } else if (sums != layouts_.end() && step == sums->second.open_step()) {
    missing = sums->second.Missing();
  }
  std::vector<Rank> ranks;
  for (const int rank : missing) ranks.emplace_back(rank);
  return ranks;
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

absl::StatusOr<std::shared_ptr<const MeanChunk>> Aggregator::NextOf(
    const LayoutSums& sums, const MeanCursor& cursor, MeanCursor::Position* position) const {
  const auto wants = [&cursor](Bucket bucket, size_t number_in_shard) {
    return cursor.Wants(bucket, number_in_shard);
  };
  while (true) {
    const auto* results = sums.Results(position->step);
    const bool is_new = position->step == view_.first_step && position->index == 0;
    // A worker does not wait for a lane that has no piece, so such a lane may come at any step.
    if (results == nullptr && is_new && sums.HasPieceFor(wants)) {
      return absl::OutOfRangeError(absl::StrCat("the results of step ", position->step.value(),
                                                " are no longer available: the open step is ",
                                                sums.open_step().value()));
    }
    if (results != nullptr && position->index < results->size())
      return (*results)[position->index++];
    if (position->step >= sums.open_step()) return std::shared_ptr<const MeanChunk>();
    *position = {Step(position->step.value() + 1), 0};
  }
}

absl::StatusOr<Mean> Aggregator::TryNext(MeanCursor* cursor) {
  for (const auto& [layout, sums] : layouts_) {
    MeanCursor::Position& position =
        cursor->positions.try_emplace(layout, MeanCursor::Position{view_.first_step}).first->second;
    absl::StatusOr<std::shared_ptr<const MeanChunk>> chunk = NextOf(sums, *cursor, &position);
    if (!chunk.ok()) return chunk.status();
    if (*chunk != nullptr) return Mean{sums.HeaderOf(position.step, **chunk), *chunk};
  }
  for (const auto& [layout, model] : models_) {
    absl::optional<ParameterServer::Answer> answer = model->Next(cursor->reader);
    if (answer.has_value()) return Mean{answer->header, std::move(answer->chunk)};
  }
  return Mean();
}

absl::StatusOr<Mean> Aggregator::Next(MeanCursor* cursor, absl::Time deadline) {
  MutexLock lock(&mutex_);
  bool late = false;
  while (true) {
    if (!state_.ok()) return state_;
    absl::StatusOr<Mean> next = TryNext(cursor);
    const bool sends = next.ok() && next->chunk != nullptr;
    CountSend(cursor, sends);
    if (!next.ok() || sends) return next;
    if (late) return absl::DeadlineExceededError("no mean is available yet");
    late = changed_.WaitWithDeadline(&mutex_, deadline);
  }
}

void Aggregator::Leave(MeanCursor* cursor) {
  MutexLock lock(&mutex_);
  CountSend(cursor, /*sends=*/false);
}

void Aggregator::Abort(absl::Status reason) {
  MutexLock lock(&mutex_);
  if (state_.ok()) state_ = std::move(reason);
  // Returns terms of this process to their owner.
  for (auto& [layout, sums] : layouts_) sums.DropTerms();
  changed_.NotifyAll();
}

uint64_t Aggregator::held_bytes() const {
  MutexLock lock(&mutex_);
  uint64_t bytes = 0;
  for (const auto& [layout, sums] : layouts_) bytes += sums.held_bytes();
  for (const auto& [layout, model] : models_) bytes += model->held_bytes();
  return bytes;
}

}  // namespace gradwire
