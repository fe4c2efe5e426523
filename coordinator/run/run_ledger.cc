#include "coordinator/run/run_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"

namespace gradwire {
namespace {

double Now() { return UnixSeconds(absl::Now()); }

v1::StartRecord StartOf(const FormRun& form, const v1::StatusReply& status,
                        const std::string& address) {
  v1::StartRecord start;
  start.set_format(kLedgerFormat);
  start.set_run_id(ToBytes(form.view.run_id));
  start.set_world_size(static_cast<uint32_t>(form.view.world_size));
  start.set_threads(static_cast<uint32_t>(form.view.threads));
  start.set_address(address);
  start.set_version(GRADWIRE_VERSION);
  *start.mutable_settings() = status.settings();
  start.set_cannot_recover(form.cannot_seal);
  start.set_time(Now());
  return start;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunLedger>> RunLedger::Open(const std::string& run_dir,
                                                           CoordinatorEpoch least, Disk* disk) {
  auto ledger = Ledger::Open(run_dir, disk);
  if (!ledger.ok()) return ledger.status();
  return absl::WrapUnique(new RunLedger(*std::move(ledger), least));
}

RunLedger::RunLedger(std::unique_ptr<Ledger> ledger, CoordinatorEpoch least)
    : ledger_(std::move(ledger)), epoch_(std::max(least.value(), ledger_->before().epoch() + 1)) {}

absl::Status RunLedger::OnView(const FormRun& form, const v1::StatusReply& status,
                               const std::string& address) {
  std::vector<Record> records;
  if (!begun_) {
    v1::EpochRecord epoch;
    epoch.set_epoch(epoch_.value());
    records = {StartOf(form, status, address), std::move(epoch)};
  }
  v1::ViewRecord view;
  *view.mutable_view() = ToProto(form.view);
  *view.mutable_lost() = TakeLost();
  view.set_time(Now());
  records.emplace_back(std::move(view));
  if (!begun_ && resumed_.has_value()) records.emplace_back(*resumed_);
  begun_ = true;
  return ledger_->RecordDurably(std::move(records));
}

void RunLedger::OnLoss(const TellLoss& loss) {
  v1::LostWorker& lost = lost_.emplace_back();
  for (const Rank rank : loss.ranks) lost.add_ranks(static_cast<uint32_t>(rank.value()));
  lost.set_step(loss.step.value());
  lost.set_cause(loss.cause);
  lost.set_address(loss.address);
}

absl::Status RunLedger::OnCheckpoint(Step step, const std::string& folder) {
  if (ended_) return absl::OkStatus();
  v1::CheckpointRecord checkpoint;
  checkpoint.set_step(step.value());
  checkpoint.set_folder(folder);
  checkpoint.set_time(Now());
  return ledger_->RecordDurably({std::move(checkpoint)});
}

absl::StatusOr<LedgerPosition> RunLedger::Sync() {
  if (absl::Status synced = ledger_->RecordDurably({}); !synced.ok()) return synced;
  return ledger_->position();
}

void RunLedger::ResumeFrom(Step step, const std::string& folder) {
  v1::ResumedRecord& resumed = resumed_.emplace();
  resumed.set_step(step.value());
  resumed.set_folder(folder);
  resumed.set_time(Now());
}

absl::Status RunLedger::OnRunOver(const absl::Status& status) {
  ended_ = true;
  if (!begun_) return absl::OkStatus();
  v1::EndRecord end;
  end.set_finished(status.ok());
  end.set_reason(status.ok() ? "all ranks finished" : std::string(status.message()));
  *end.mutable_lost() = TakeLost();
  end.set_time(Now());
  return ledger_->RecordDurably({std::move(end)});
}

google::protobuf::RepeatedPtrField<v1::LostWorker> RunLedger::TakeLost() {
  const std::vector<v1::LostWorker> lost = std::exchange(lost_, {});
  return {lost.begin(), lost.end()};
}

}  // namespace gradwire
