#ifndef GRADWIRE_COORDINATOR_CHECKPOINTS_CHECKPOINT_KEEPER_H_
#define GRADWIRE_COORDINATOR_CHECKPOINTS_CHECKPOINT_KEEPER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/disk.h"
#include "common/base/mutex.h"
#include "common/rpc/security.h"
#include "common/state/checkpoint_writer.h"
#include "common/state/manifest.h"
#include "common/state/state_plan.h"
#include "coordinator/membership/membership.h"

namespace gradwire {

// A checkpoint that was written, or not.
struct KeptCheckpoint {
  Step step;                  // the first that is not part of it
  Generation generation;      // in which the workers copied it
  absl::Status status;        // OK: it is published, or was before
  bool replaced = false;      // not written, because a newer one is written in its place
  absl::Status deleted = {};  // of older ones; not OK: some are still there
  int64_t bytes = 0;          // of its tensors
  absl::Duration took;        // from the workers' copies to the published folder
};

struct KeeperOptions {
  std::string run_dir;  // locked by this process (RunFolder)
  int keep = 3;         // checkpoints; at least 1
  RunId run_id{};
  CoordinatorEpoch epoch;
  int world_size = 1;
  Security security = {};
  Disk* disk = &RealDisk();
  // Called before a checkpoint is published. Returns the position in the ledger after the steps
  // that it contains, which are then on the disk; none if they cannot be written.
  std::function<absl::optional<Manifest::Ledger>()> ledger_position = nullptr;
  // Called after a checkpoint was published. Unless OK, older ones are not deleted.
  std::function<absl::Status(Step)> on_published = nullptr;
};

// Returns the plan of the state that the donors hold together: what all have in common once, and
// what each rank has for itself. InvalidArgument if they do not fit together.
absl::StatusOr<StatePlan> PlanOf(const SaveState& save);

// Fetches the workers' state and writes it, one checkpoint at a time, on a thread of its own, while
// training goes on. The parts come from all donors in turn, 4 MiB at a time; if a donor is lost,
// the others send its parts, if they have them.
//
//   Order ─► fetch ─► CheckpointWriter ─► publish ─► delete old ones ─► on_kept
//
// Thread-safe.
class CheckpointKeeper {
 public:
  // `on_kept` is called on the keeper's thread for each order, with no lock held.
  CheckpointKeeper(KeeperOptions options, std::function<void(const KeptCheckpoint&)> on_kept);
  // Gives up an order that is not complete.
  ~CheckpointKeeper();
  CheckpointKeeper(const CheckpointKeeper&) = delete;
  CheckpointKeeper& operator=(const CheckpointKeeper&) = delete;

  // Orders a checkpoint. If an order still waits, its place is taken: a newer state is worth more.
  void Order(SaveState save);

 private:
  void Run();
  KeptCheckpoint Keep(const SaveState& save);
  // After a worker had given up its copy before `step`: whether a later one is ordered. Workers do
  // so for the copy after the last step.
  bool AwaitNewer(Step step);
  // Whether this coordinator has published this step, and the checkpoint is sound.
  bool HasOwn(Step step) const;
  absl::Status Write(const SaveState& save, StatePlan plan,
                     IfPublished if_published = IfPublished::kRefuse);
  Manifest ManifestOf(const SaveState& save) const;
  bool IsStopping() const;

  const KeeperOptions options_;
  const std::function<void(const KeptCheckpoint&)> on_kept_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::optional<SaveState> order_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_CHECKPOINTS_CHECKPOINT_KEEPER_H_
