#ifndef GRADWIRE_COORDINATOR_CHECKPOINTS_RUN_FOLDER_H_
#define GRADWIRE_COORDINATOR_CHECKPOINTS_RUN_FOLDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/state/run_dir.h"
#include "coordinator/checkpoints/stored_state.h"
#include "coordinator/membership/resuming.h"

namespace gradwire {

// The run directory of this coordinator, and the checkpoint that its run continues, if there is
// one.
class RunFolder {
 public:
  // Takes the directory for this process, and selects a checkpoint: `resume` is auto (the newest
  // that is sound), never, or a step. Logs each newer one that it skips, with the reason.
  //   Unavailable      another process uses the directory
  //   NotFound         there is no checkpoint of that step
  //   Internal         the directory cannot be read
  //   InvalidArgument  it is no directory, or cannot be written; there are checkpoints and `resume`
  //                    is never; there are checkpoints, but none is sound; or the checkpoint has
  //                    another world size
  static absl::StatusOr<std::unique_ptr<RunFolder>> Open(const std::string& run_dir,
                                                         const std::string& resume, int world_size,
                                                         const std::string& log_prefix);

  const std::string& path() const { return path_; }
  // Null: the run begins with step 0.
  const std::shared_ptr<StoredState>& resumed() const { return resumed_; }
  // Returns the facts of the checkpoint, which must exist.
  ResumedRun resumed_run() const;
  // Returns the largest coordinator epoch of all checkpoints that can be opened; 0 if there is
  // none. Later ones than that of `resumed` count, too: an epoch tells the checkpoints of one start
  // from those of others.
  uint64_t LastEpoch() const;
  // Whether the run had already reached its end.
  bool is_finished() const { return resumed_ != nullptr && resumed_->manifest().finished; }

 private:
  RunFolder(std::string path, RunDirLock lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  absl::Status Select(const std::string& resume, int world_size, const std::string& log_prefix);

  const std::string path_;
  const RunDirLock lock_;
  std::shared_ptr<StoredState> resumed_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_CHECKPOINTS_RUN_FOLDER_H_
