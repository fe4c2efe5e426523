#ifndef GRADWIRE_COMMON_STATE_RUN_DIR_H_
#define GRADWIRE_COMMON_STATE_RUN_DIR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/base/address.h"
#include "common/base/disk.h"

namespace gradwire {

// A run directory keeps what outlives a run's processes:
//
//   RUN-DIR/step-000000001200/       a published checkpoint: whole, or damaged later
//   RUN-DIR/step-000000001300.tmp/   one that is being written, or whose writer died
//   RUN-DIR/step-000000001300.old.tmp/   one that was replaced by another of the same step

// Returns "step-000000001200".
std::string CheckpointName(int64_t step);
// Returns the step of such a name, or none.
absl::optional<int64_t> ParseCheckpointName(absl::string_view name);
// The end of the name of a folder that is not published.
inline constexpr char kUnpublished[] = ".tmp";
// Stands before it if another checkpoint of the same step has taken the name.
inline constexpr char kReplaced[] = ".old";

// The exclusive use of a run directory by one process, until it is destroyed or the process ends.
class RunDirLock {
 public:
  // Creates the directory if only its last name is missing.
  //   Unavailable      another process uses it; exit code 75
  //   InvalidArgument  it is no directory, or cannot be created or written
  static absl::StatusOr<RunDirLock> Take(const std::string& run_dir);

 private:
  explicit RunDirLock(UniqueFd folder) : folder_(std::move(folder)) {}
  UniqueFd folder_;
};

// A published checkpoint, found by name only.
struct CheckpointFolder {
  int64_t step = 0;
  std::string path;
};

// Returns the published checkpoints, newest first. NotFound if `run_dir` does not exist or is no
// directory; Internal if it cannot be read.
absl::StatusOr<std::vector<CheckpointFolder>> ListCheckpoints(const std::string& run_dir);

// Removes folders whose writers died, and replaced ones. Needs the lock. Errors of Disk.
absl::Status RemoveLeftovers(const std::string& run_dir, Disk* disk);

// Removes published checkpoints, oldest first. Each first loses its name, so that no part of one is
// ever taken for a checkpoint. Needs the lock. Errors of Disk.
absl::Status RemoveCheckpoints(const std::string& run_dir,
                               std::vector<CheckpointFolder> checkpoints, Disk* disk);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_STATE_RUN_DIR_H_
