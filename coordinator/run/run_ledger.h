#ifndef GRADWIRE_COORDINATOR_RUN_RUN_LEDGER_H_
#define GRADWIRE_COORDINATOR_RUN_RUN_LEDGER_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/ledger/ledger.h"
#include "coordinator/membership/membership.h"
#include "gradwire/v1/status.pb.h"

namespace gradwire {

// Writes what happens in the run to the ledger of its run directory: the adapter between Membership
// and Ledger.
//
// OnView, OnLoss and OnRunOver are for a RunListener, whose calls come one at a
// time; the others are thread-safe.
class RunLedger {
 public:
  // Needs the lock of `run_dir` (RunFolder), until this is destroyed. `least`: of the epoch. `disk`
  // must live as long as this. Errors: those of Ledger::Open.
  static absl::StatusOr<std::unique_ptr<RunLedger>> Open(const std::string& run_dir,
                                                         CoordinatorEpoch least, Disk* disk);
  // As Ledger::Listen.
  void Listen(LedgerHooks hooks) { ledger_->Listen(std::move(hooks)); }

  // Returns the epoch of this coordinator: one more than that of the last one, or the least.
  CoordinatorEpoch epoch() const { return epoch_; }

  // A view begins. Returns when it is on the disk. `status`: of the run, for its settings;
  // `address` of the coordinator. Errors: those of Ledger::RecordDurably.
  absl::Status OnView(const FormRun& form, const v1::StatusReply& status,
                      const std::string& address);
  void OnSealed(const v1::SealedRecord& record) { ledger_->Record(record); }
  // The next view or the end reports it.
  void OnLoss(const TellLoss& loss);
  // A checkpoint is published in RUN-DIR/`folder`; it contains all steps before `step`. Does
  // nothing after OnRunOver. Errors as for OnView.
  absl::Status OnCheckpoint(Step step, const std::string& folder);
  // Returns when all steps sealed so far are on the disk, with the position after them. Errors as
  // for OnView.
  absl::StatusOr<LedgerPosition> Sync();
  // The run continues with `step` from the checkpoint in `folder`: the first OnView records it.
  // Must be called before that.
  void ResumeFrom(Step step, const std::string& folder);
  // The run is over; nothing follows. Does nothing before the first view. Errors as for OnView.
  absl::Status OnRunOver(const absl::Status& status);

  // Returns OK while steps are recorded, else why they are not.
  absl::Status durability() const { return ledger_->durability(); }

 private:
  RunLedger(std::unique_ptr<Ledger> ledger, CoordinatorEpoch least);
  // Returns the workers lost since the last call.
  google::protobuf::RepeatedPtrField<v1::LostWorker> TakeLost();

  const std::unique_ptr<Ledger> ledger_;
  const CoordinatorEpoch epoch_;
  bool begun_ = false;
  std::atomic<bool> ended_{false};
  std::vector<v1::LostWorker> lost_;
  absl::optional<v1::ResumedRecord> resumed_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_RUN_RUN_LEDGER_H_
