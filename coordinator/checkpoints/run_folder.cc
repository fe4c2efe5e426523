#include "coordinator/checkpoints/run_folder.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/memory/memory.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/state/checkpoints.h"
#include "coordinator/checkpoints/resume_choice.h"

namespace gradwire {
namespace {

absl::Status CheckEmpty(const std::string& run_dir) {
  const absl::StatusOr<std::vector<CheckpointFolder>> checkpoints = ListCheckpoints(run_dir);
  if (!checkpoints.ok()) return checkpoints.status();
  if (checkpoints->empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--resume never: got '", run_dir, "' with a checkpoint before step ",
                   checkpoints->front().step, ", expected a folder without checkpoints"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunFolder>> RunFolder::Open(const std::string& run_dir,
                                                           const std::string& resume,
                                                           int world_size,
                                                           const std::string& log_prefix) {
  absl::StatusOr<RunDirLock> lock = RunDirLock::Take(run_dir);
  if (!lock.ok()) return lock.status();
  auto folder = absl::WrapUnique(new RunFolder(run_dir, *std::move(lock)));
  if (absl::Status selected = folder->Select(resume, world_size, log_prefix); !selected.ok()) {
    return selected;
  }
  return folder;
}

absl::Status RunFolder::Select(const std::string& resume, int world_size,
                               const std::string& log_prefix) {
  if (resume == kResumeNever) return CheckEmpty(path_);
  absl::optional<int64_t> step;
  int64_t number = 0;
  if (absl::SimpleAtoi(resume, &number)) step = number;
  std::vector<std::string> skipped;
  absl::StatusOr<std::unique_ptr<CheckpointReader>> reader = OpenCheckpoint(path_, step, &skipped);
  for (const std::string& sentence : skipped) spdlog::warn("{}{}", log_prefix, sentence);
  if (absl::IsNotFound(reader.status()) && !step.has_value()) return absl::OkStatus();
  if (!reader.ok()) return reader.status();
  const Manifest& manifest = (*reader)->manifest();
  if (manifest.world_size != world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("resume: world size: got ", world_size, ", expected ", manifest.world_size,
                     ", as in the checkpoint before step ", manifest.step));
  }
  resumed_ = std::make_shared<StoredState>(*std::move(reader));
  spdlog::info("{}the run resumes before step {}, from '{}'", log_prefix, manifest.step, path_);
  return absl::OkStatus();
}

uint64_t RunFolder::LastEpoch() const {
  uint64_t last = 0;
  const absl::StatusOr<std::vector<CheckpointState>> checkpoints = ScanRunDir(path_);
  if (!checkpoints.ok()) return last;
  for (const CheckpointState& checkpoint : *checkpoints) {
    if (checkpoint.manifest.has_value()) last = std::max(last, checkpoint.manifest->epoch);
  }
  return last;
}

ResumedRun RunFolder::resumed_run() const {
  const Manifest& manifest = resumed_->manifest();
  ResumedRun run;
  run.step = Step(static_cast<uint64_t>(manifest.step));
  run.settings = manifest.settings;
  run.threads = manifest.threads;
  run.environment = manifest.environment;
  run.total_steps = static_cast<uint64_t>(manifest.total_steps);
  run.steps_per_epoch = static_cast<uint64_t>(manifest.steps_per_epoch);
  return run;
}

}  // namespace gradwire
