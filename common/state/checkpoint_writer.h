#ifndef GRADWIRE_COMMON_STATE_CHECKPOINT_WRITER_H_
#define GRADWIRE_COMMON_STATE_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/base/disk.h"
#include "common/state/manifest.h"
#include "common/state/state_plan.h"

namespace gradwire {

// What to do with a published checkpoint of the same step.
enum class IfPublished { kRefuse, kReplace };

// Writes one checkpoint. It holds no part in memory: each goes to its place in a file at once.
//
//   Open     makes RUN-DIR/step-….tmp/ and its files, with their headers
//   Write    a part, in any order
//   Publish  syncs the files; writes and syncs the manifest; syncs the folder; renames it to
//            RUN-DIR/step-…/; syncs RUN-DIR
//
// So the name without .tmp exists only for a whole checkpoint, also after a power cut. A writer
// that is destroyed before the rename removes its folder. One that replaces another checkpoint
// renames that to RUN-DIR/step-….old.tmp/ just before its own, and removes it in the end: after a
// power cut between the two renames neither is published. Not thread-safe.
class CheckpointWriter {
 public:
  // Needs the RunDirLock; one writer of a directory at a time. Removes what earlier writers left.
  // Errors of Disk, and AlreadyExists if this step is published and is not to be replaced.
  static absl::StatusOr<std::unique_ptr<CheckpointWriter>> Open(
      const std::string& run_dir, int64_t step, StatePlan plan, Disk* disk,
      IfPublished if_published = IfPublished::kRefuse);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  const StatePlan& plan() const { return plan_; }

  // Writes a part, once. Errors of Disk, and InvalidArgument: there is no such part, it was written
  // already, or it has another size.
  absl::Status Write(int part, absl::string_view bytes);
  // Returns the number of parts that were not written yet.
  int missing() const { return missing_; }

  // Publishes the checkpoint; call once. Fills in the manifest's step, files, sizes and
  // digests. Returns the folder's path. Remove no older checkpoint after an error: after one of the
  // last sync, the new folder exists but may not survive a power cut. Errors of Disk, and
  //   FailedPrecondition  parts are missing
  //   InvalidArgument     the model or the optimizer's state has values that are not finite: names
  //                       the tensor
  absl::StatusOr<std::string> Publish(Manifest manifest);

 private:
  CheckpointWriter(const std::string& run_dir, int64_t step, StatePlan plan, Disk* disk,
                   IfPublished if_published);
  bool IsPublished() const;  // this step
  absl::Status Create();
  void FillIn(Manifest* manifest) const;
  // Writes and syncs all of the folder, and the manifest last.
  absl::Status MakeDurable(const std::string& manifest);
  // Gives the folder its published name.
  absl::Status TakeName();

  const std::string run_dir_;
  const int64_t step_;
  const StatePlan plan_;
  Disk* const disk_;
  const IfPublished if_published_;
  const std::string folder_;  // the published name
  const std::string temporary_;
  const std::string replaced_;                    // last name of one that is replaced
  std::vector<std::unique_ptr<DiskFile>> files_;  // of the plan
  std::vector<absl::optional<uint64_t>> hashes_;  // by part
  int missing_ = 0;
  absl::Status non_finite_;  // of the first such value
  bool created_ = false;     // the temporary folder
  bool published_ = false;   // the name may be durable
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_STATE_CHECKPOINT_WRITER_H_
