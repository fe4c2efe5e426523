// The part of Coordinator that has to do with checkpoints.
#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "coordinator/run/coordinator.h"

namespace gradwire {

void Coordinator::NoteResume() {
  if (folder_->resumed() == nullptr) return;
  const ResumedRun run = folder_->resumed_run();
  metrics_.SetResumedStep(run.step);
  ledger_->ResumeFrom(run.step, CheckpointName(static_cast<int64_t>(run.step.value())));
  history_.AddEvent(
      {absl::Now(), run.step, "resumed",
       absl::StrCat("the run continues the checkpoint before step ", run.step.value())});
  if (folder_->is_finished()) SayThatItIsFinished(run.step);
}

// A run that was to have more steps when the checkpoint was made may end with it.
void Coordinator::NoteSettings(const Settings& settings) {
  if (folder_->resumed() == nullptr || folder_->is_finished()) return;
  const ResumedRun run = folder_->resumed_run();
  if (HasNoStepLeft(settings, run)) SayThatItIsFinished(run.step);
}

void Coordinator::SayThatItIsFinished(Step step) const {
  spdlog::info(
      "{}the run has already finished with step {}; it does more steps only if --epochs or "
      "--iterations are raised",
      log_prefix_, step.value());
}

absl::StatusOr<std::shared_ptr<SharedState>> Coordinator::FindState(const RunId& run_id,
                                                                    Step step) const {
  if (run_id != run_id_) {
    return absl::PermissionDeniedError(
        absl::StrCat("state: got run ", ToHex(run_id), ", expected ", ToHex(run_id_)));
  }
  const bool resumed = folder_ != nullptr && folder_->resumed() != nullptr;
  if (resumed && folder_->resumed_run().step == step) return folder_->resumed();
  return absl::FailedPreconditionError(
      absl::StrCat("state: got step ", step.value(), ", expected ",
                   resumed ? absl::StrCat(folder_->resumed_run().step.value())
                           : "none, because this run continues no checkpoint"));
}

// On the keeper's thread, like the next two.
absl::optional<Manifest::Ledger> Coordinator::SyncLedger() {
  const absl::StatusOr<LedgerPosition> position = ledger_->Sync();
  if (!position.ok()) return absl::nullopt;
  return Manifest::Ledger{position->number, position->chain};
}

absl::Status Coordinator::RecordCheckpoint(Step step) {
  const absl::Status recorded =
      ledger_->OnCheckpoint(step, CheckpointName(static_cast<int64_t>(step.value())));
  if (!recorded.ok()) {
    spdlog::warn("{}the checkpoint before step {} is not recorded, so older ones are kept: {}",
                 log_prefix_, step.value(), std::string(recorded.message()));
  }
  return recorded;
}

void Coordinator::OnKept(const KeptCheckpoint& kept) {
  if (kept.status.ok()) {
    metrics_.CountCheckpoint(true);
    metrics_.SetCheckpoint(kept.step, absl::Now(), kept.bytes, kept.took);
    history_.SetCheckpoint({kept.step, absl::Now(), kept.bytes, kept.took});
    spdlog::info("{}checkpoint before step {} in '{}': {} bytes in {}", log_prefix_,
                 kept.step.value(), folder_->path(), kept.bytes, absl::FormatDuration(kept.took));
    if (!kept.deleted.ok()) {
      spdlog::warn("{}an older checkpoint is still there: {}", log_prefix_,
                   std::string(kept.deleted.message()));
    }
  } else if (kept.replaced) {
    spdlog::info("{}no checkpoint before step {}, because a newer one is written in its place",
                 log_prefix_, kept.step.value());
  } else {
    spdlog::warn("{}no checkpoint before step {}: {}", log_prefix_, kept.step.value(),
                 std::string(kept.status.message()));
    OnNoCheckpoint(kept.step, kept.status.message());
  }
  membership_.Saved(kept.step, kept.generation, kept.status.ok());
}

void Coordinator::OnNoCheckpoint(Step step, absl::string_view why) {
  metrics_.CountCheckpoint(false);
  history_.AddEvent({absl::Now(), step, "checkpoint failed",
                     absl::StrCat("no checkpoint before step ", step.value(), ": ", why)});
}

}  // namespace gradwire
