// The part of SimWorker that tells the coordinator, and hears it and the others.
#include <utility>

#include "tests/simulate/sim_worker.h"

namespace gradwire::simulate {

void SimWorker::OnReady(Step step, absl::Span<const TensorDigest> digests) {
  scene_->checks.OnApplied(incarnation_, view_.generation, step, ParametersDigest());
  applying_ = Step(step.value() + 1);
  TellReady(step, /*last=*/false, digests);
  scene_->reached(Moment::kReady, index_);
}

void SimWorker::TellOfStep() {
  if (!unsealed_.has_value()) return;
  const Step step = *std::exchange(unsealed_, absl::nullopt);
  scene_->checks.OnStepTold(incarnation_, step);
  for (const Rank rank : view_.OwnRanks()) {
    v1::WorkerMessage message;
    message.mutable_step_done()->set_step(step.value());
    message.mutable_step_done()->set_rank(static_cast<uint32_t>(rank.value()));
    message.mutable_step_done()->set_generation(view_.generation.value());
    Tell(message);
  }
}

void SimWorker::TellReady(Step step, bool last, absl::Span<const TensorDigest> digests) {
  v1::WorkerMessage message;
  message.mutable_ready()->set_step(step.value());
  message.mutable_ready()->set_generation(view_.generation.value());
  message.mutable_ready()->set_last(last);
  for (const TensorDigest& digest : digests) {
    v1::TensorDigest* const added = message.mutable_ready()->add_digests();
    added->set_tensor(static_cast<uint32_t>(digest.tensor));
    added->set_digest(digest.digest);
  }
  Tell(message);
}

void SimWorker::TellLeave(bool finished) {
  v1::WorkerMessage message;
  message.mutable_leave()->set_finished(finished);
  message.mutable_leave()->set_reason(finished ? "" : "it was stopped, or gave up");
  Tell(message);
  left_ = true;
}

void SimWorker::Tell(const v1::WorkerMessage& message) {
  if (is_killed_ || session_ended_ || left_) return;
  ports_.tell(message);
}

void SimWorker::OnMessage(const v1::CoordinatorMessage& message) {
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kView:
      return OnView(message.view());
    case v1::CoordinatorMessage::kLayoutAgreed:
      agreed_ = true;
      return;
    case v1::CoordinatorMessage::kSealed:
      changes_.OnSealed(Step(message.sealed().step()));
      return scene_->reached(Moment::kSealedHeard, index_);
    case v1::CoordinatorMessage::kPaused:
      return OnPaused(message.paused().reason());
    case v1::CoordinatorMessage::kAbort:
      return OnAbort(absl::AbortedError(message.abort().reason()));
    default:
      return;
  }
}

void SimWorker::OnView(const v1::View& proto) {
  absl::StatusOr<View> view = ViewFromProto(proto, incarnation_);
  if (!view.ok()) return OnAbort(absl::InternalError(view.status().message()));
  scene_->checks.OnViewHeard(*view);
  if (!first_view_.has_value()) {
    first_view_ = *std::move(view);
    return;
  }
  changes_.OnNewView(*std::move(view));
  paused_ = false;
  if (exchange_ != nullptr && !scene_->IsPlanted(Plant::kTransfersNotEnded)) {
    exchange_->Cancel(absl::AbortedError("a further view has begun"));
  }
  scene_->reached(Moment::kViewHeard, index_);
}

void SimWorker::OnPaused(const std::string& reason) {
  scene_->journal.Say("worker ", index_, " hears of a pause");
  changes_.OnPaused();
  paused_ = true;
  if (exchange_ != nullptr) exchange_->Cancel(absl::AbortedError(reason));
}

void SimWorker::OnAbort(const absl::Status& status) {
  if (stopped_.ok()) stopped_ = status;
  changes_.End(status);
  if (exchange_ != nullptr) exchange_->Cancel(status);
}

void SimWorker::OnSessionEnd(const absl::Status& status) {
  session_ended_ = true;
  if (!left_) return OnAbort(status.ok() ? absl::UnavailableError("the session ended") : status);
  // It was told to stop, and the coordinator knows.
  if (!stopped_.ok() && exchange_ != nullptr) exchange_->Cancel(stopped_);
}

void SimWorker::OnMean(const std::weak_ptr<SimExchange>& of, const Chunk& mean) {
  const std::shared_ptr<SimExchange> exchange = of.lock();
  if (exchange && exchange == exchange_) return exchange->Take(mean, mean.header.generation);
  if (!scene_->IsPlanted(Plant::kStaleMeans) || exchange_ == nullptr) return;
  Chunk stale = mean;
  stale.header.generation = view_.generation;
  exchange_->Take(stale, mean.header.generation);
}

}  // namespace gradwire::simulate
