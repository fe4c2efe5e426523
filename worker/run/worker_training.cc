// The part of Worker that trains, evaluates, and goes on when another worker is lost.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "worker/run/worker.h"

namespace gradwire {

absl::Status Worker::Train() {
  absl::Status status = options_.inference.empty() ? TrainAndEvaluate() : InferAndWrite();
  NoteOutputs(reporter_->Finish());
  NoteOutputs(results_);
  if (status.ok() && member_ != nullptr) {
    status = member_->Finish(SteadyNow() + absl::Seconds(options_.step_timeout_seconds));
  }
  if (trace_log_ == nullptr) return status;
  const auto offset = member_ ? member_->clock_offset() : absl::ZeroDuration();
  NoteOutputs(trace_log_->Close(offset));
  return status;
}

absl::Status Worker::InferAndWrite() {
  absl::Status status = Infer();
  if (status.ok()) results_ = WriteResults();
  return status;
}

absl::Status Worker::TrainAndEvaluate() {
  absl::Status status = TrainFrom(static_cast<int64_t>(first_step_.value()));
  while (!status.ok() && GoesOn(status)) {
    status = GoOn();
    if (status.ok()) status = TrainFrom(static_cast<int64_t>(view_.first_step.value()));
  }
  return status;
}

// Includes the evaluation before step `first`, if there is one.
absl::Status Worker::TrainFrom(int64_t first) {
  absl::Status status = first > 0 && IsEvaluated(first) ? Evaluate() : absl::OkStatus();
  for (int64_t steps = first; status.ok() && steps < TotalSteps();) {
    steps = StepsOfEvaluations().After(steps);
    status = TrainUntil(steps);
    if (status.ok() && IsEvaluated(steps)) status = Evaluate();
  }
  return status.ok() ? End() : status;
}

// Writes the results before the last Ready: if this worker is lost earlier, the others take over
// its ranks and write theirs. Files are replaced as a whole, so it is safe to write them twice.
// Then waits, so that no worker leaves while others still need it.
absl::Status Worker::End() {
  const Step behind_all(static_cast<uint64_t>(TotalSteps()));
  BeginPhase("results", behind_all, /*waits=*/false, absl::nullopt);
  results_ = WriteResults();
  if (absl::Status saved = AwaitLastCheckpoint(); !saved.ok()) return saved;
  if (!view_.seals) return absl::OkStatus();
  member_->ReportReady(behind_all, /*last=*/true);
  BeginPhase("wait", behind_all, /*waits=*/true, absl::nullopt);
  absl::Status sealed = member_->AwaitSealed(behind_all);
  BeginPhase("results", behind_all, /*waits=*/false, absl::nullopt);  // it may close a trace
  return sealed;
}

absl::Status Worker::AwaitSealed(Step step) {
  absl::Status sealed = member_->AwaitSealed(step);
  if (sealed.ok()) TellOfStep();
  return sealed;
}

EvaluationSteps Worker::StepsOfEvaluations() const {
  return {options_.evaluate_every * batches_->steps_per_epoch(), TotalSteps()};
}

bool Worker::IsEvaluated(int64_t steps) const {
  return evaluator_ != nullptr && StepsOfEvaluations().Has(steps);
}

// After `status` ended training: whether a worker was lost and this one has a new view, in which it
// computes the step again.
bool Worker::GoesOn(const absl::Status& status) {
  if (!view_.seals || IsOfAll(status)) return false;
  if (!broken_off_.has_value()) broken_off_ = SteadyNow();
  if (!in_vain_since_.has_value()) in_vain_since_ = broken_off_;
  NextView next = member_->AwaitNextView(status, CurrentStep());
  if (next.kind == NextView::kEnd) return false;
  view_heard_ = next.heard;
  MutexLock lock(&mutex_);
  view_ = std::move(next.view);
  ranks_ = view_.OwnRanks();
  spdlog::warn("{}; {} of {} from step {} on, generation {}",
               next.kind == NextView::kGoOn ? "a worker was lost" : "the pause is over",
               NameOf(ranks_), view_.world_size, view_.first_step.value(),
               view_.generation.value());
  return true;
}

// Goes on from the common state at the beginning of the view's first step.
absl::Status Worker::GoOn() {
  const absl::Time view_taken = SteadyNow();
  metrics_.SetView(static_cast<int>(view_.members.size()), view_.generation);
  work_.SetGeneration(view_.generation);
  if (absl::Status status = member_->Connect(view_); !status.ok()) return status;
  const bool is_sealed =
      !unsealed_.records.empty() && unsealed_.records.front().step < view_.first_step;
  if (is_sealed) TellOfStep();
  unsealed_.records.clear();
  const absl::optional<absl::Time> begun = trainer_->BegunAt(view_.first_step);
  if (begun.has_value()) in_vain_since_ = std::min(*in_vain_since_, *begun);
  trainer_->Rewind(view_.first_step);
  sync_->Attach(&member_->exchange(), layout_, ranks_);
  ShareEvaluations();
  state_->OnView(view_);
  absl::Status status = state_->ResumeRanks(view_);
  if (status.ok()) status = StartLoader(static_cast<int64_t>(view_.first_step.value()));
  if (status.ok()) TellOfRecovery(view_taken, begun.has_value());
  return status;
}

void Worker::TellOfRecovery(absl::Time view_taken, bool recomputes) {
  const absl::Time now = SteadyNow();
  Recovery recovery;
  recovery.generation = view_.generation;
  recovery.step = view_.first_step;
  recovery.change = ChangeOf(trained_view_, view_);
  recovery.ranks = ranks_;
  recovery.recomputes = recomputes;
  recovery.gone_on = absl::Now();
  recovery.heard = recovery.gone_on - (now - view_heard_);
  const absl::Time broken_off = *std::exchange(broken_off_, absl::nullopt);
  recovery.lost = {broken_off - *in_vain_since_, view_taken - broken_off, now - view_taken};
  spdlog::info("goes on; the {} cost {}", recovery.change.lost.empty() ? "pause" : "loss",
               Describe(recovery.lost));
  if (const OnSpan on_span = SpanListener()) {
    on_span({TraceSpan::Lane::kCompute, "recover", view_.first_step, Bucket(0), broken_off, now});
  }
  member_->TellLost(recovery.lost);
  reporter_->GoOn(std::move(recovery));
  trained_view_ = view_;
  in_vain_since_.reset();
}

// Tells the coordinator, in case other workers wait for this one.
void Worker::BeginPhase(const char* phase, Step step, bool waits, absl::optional<Bucket> bucket) {
  work_.Begin(phase, step, waits, bucket, SteadyNow());
}

Step Worker::CurrentStep() const { return trainer_ ? trainer_->current_step() : Step(0); }

absl::Status Worker::TrainUntil(int64_t steps) {
  const auto next = [this, steps]() -> absl::StatusOr<Batch> {
    const bool begins_step = next_batch_ % ranks_.size() == 0;
    if (begins_step && next_batch_ / ranks_.size() == static_cast<uint64_t>(steps)) {
      return absl::OutOfRangeError("an evaluation, or the end, comes first");
    }
    ++next_batch_;
    return loader_->Next();
  };
  return trainer_->Run(
      next, sync_.get(), [this](absl::Span<const StepRecord> reports) { OnStep(reports); },
      [this] { return stopper_->requested(); });
}

absl::Status Worker::Evaluate() {
  reporter_->Pause();
  in_vain_since_ = SteadyNow();
  BeginPhase("evaluation", CurrentStep(), /*waits=*/false, absl::nullopt);
  const absl::Status begun = sync_ != nullptr ? sync_->BeginEvaluation() : absl::OkStatus();
  if (!begun.ok()) return begun;
  const auto evaluations = evaluator_->Run(
      [this] { return stopper_->requested(); },
      [this] { BeginPhase("evaluation", CurrentStep(), /*waits=*/true, absl::nullopt); });
  if (sync_ != nullptr) sync_->EndEvaluation();
  if (!evaluations.ok()) return evaluations.status();
  in_vain_since_.reset();
  reporter_->OnEvaluation(*evaluations);
  return absl::OkStatus();
}

}  // namespace gradwire
