// The part of Worker that has to do with checkpoints.
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/run/worker.h"

namespace gradwire {

namespace {

v1::OptimizerConfig ToProto(const OptimizerOptions& optimizer, double lr) {
  v1::OptimizerConfig config;
  config.set_name(optimizer.name);
  auto& options = *config.add_groups()->mutable_options();
  options["lr"] = lr;
  options["momentum"] = optimizer.momentum;
  options["weight_decay"] = optimizer.weight_decay;
  options["nesterov"] = optimizer.nesterov ? 1 : 0;
  return config;
}

}  // namespace

// The coordinator refuses a run that is shorter, but it learns the number of steps from workers.
absl::Status Worker::CheckResumedStep() const {
  const auto total = static_cast<uint64_t>(TotalSteps());
  if (first_step_.value() <= total) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "resume: got a checkpoint before step ", first_step_.value(), ", expected one of ", total,
      " steps or fewer, as --epochs and --iterations say"));
}

void Worker::MakeStateKeeper(const TrainerOptions& options) {
  TrainingParts parts;
  parts.model = model_.get();
  parts.reducer = &trainer_->reducer();
  parts.sync = sync_.get();
  parts.optimizers = [this](size_t index) { return trainer_->Optimizers(index); };
  parts.kept = [this] {
    return low_rank_ != nullptr ? low_rank_->Kept(LayoutId(0)) : member_->exchange().Kept(layout_);
  };
  parts.broadcast = options_.broadcast_buffers;
  parts.undoable = view_.seals;
  training_state_ = std::make_unique<TrainingState>(std::move(parts));
  StateKeeper::Run run{view_.checkpoint_every, TotalSteps(), StepsPerEpoch()};
  // With top-k the ranks apply the momentum, and with local-sgd or diloco all of the optimizer.
  const bool is_of_all =
      !sync_traits_.periodic && options.update.optimizer.momentum == options_.momentum;
  run.optimizer = [is_of_all, optimizer = options.update.optimizer,
                   lr = options.learning_rate](Step step) {
    return is_of_all ? ToProto(optimizer, lr(step)) : v1::OptimizerConfig();
  };
  state_ = std::make_unique<StateKeeper>(training_state_.get(), std::move(run), member_.get(),
                                         &held_state_);
  MutexLock lock(&mutex_);
  shown_state_ = state_.get();
  for (const Step step : asked_early_) shown_state_->Ask(step);
  asked_early_.clear();
}

absl::Status Worker::AwaitLastCheckpoint() {
  if (state_ == nullptr || !view_.keeps_state) return absl::OkStatus();
  const Step last(static_cast<uint64_t>(TotalSteps()));
  BeginPhase("checkpoint", last, /*waits=*/false, absl::nullopt);
  return state_->AwaitLast(last, view_, absl::Seconds(options_.step_timeout_seconds));
}

}  // namespace gradwire
