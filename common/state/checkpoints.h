#ifndef GRADWIRE_COMMON_STATE_CHECKPOINTS_H_
#define GRADWIRE_COMMON_STATE_CHECKPOINTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/disk.h"
#include "common/state/checkpoint_reader.h"
#include "common/state/run_dir.h"

namespace gradwire {

// A checkpoint that was looked at.
struct CheckpointState {
  CheckpointFolder folder;
  absl::Status status;                // OK: it is sound; otherwise why not
  absl::optional<Manifest> manifest;  // none if it cannot be opened
};

// Looks at manifest, sizes and headers of the published checkpoint of `step`, or of all, newest
// first. Leaves out those that a run deletes meanwhile. Errors of ListCheckpoints, and NotFound if
// there is no checkpoint of `step`: lists those that exist.
absl::StatusOr<std::vector<CheckpointState>> ScanRunDir(
    const std::string& run_dir, absl::optional<int64_t> step = absl::nullopt);

// Looks at each byte of those that are sound so far. Removes those that a run deletes meanwhile.
void VerifyAll(std::vector<CheckpointState>* states);

// Opens the checkpoint of `step`, or, without one, the newest that is sound. Reads each byte.
// `skipped` gets a sentence for each newer one. Errors of ListCheckpoints, and
//   NotFound         there is no checkpoint, or none of this step: lists those that exist
//   InvalidArgument  this checkpoint, or each of them, is damaged: says why
absl::StatusOr<std::unique_ptr<CheckpointReader>> OpenCheckpoint(const std::string& run_dir,
                                                                 absl::optional<int64_t> step,
                                                                 std::vector<std::string>* skipped);

// Removes all published checkpoints that are older than the `count` newest sound ones (count > 0)
// up to that of step `last`; none if fewer are sound. Later ones, which a resumed run has not
// reached, neither count nor go. Sound is what CheckpointReader::Open accepts; values are not read.
// Needs the lock. Errors of ListCheckpoints and Disk.
absl::Status KeepNewest(const std::string& run_dir, int64_t last, int count, Disk* disk);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_STATE_CHECKPOINTS_H_
