#include "common/state/checkpoints.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gradwire {
namespace {

// Closes the files: there may be more checkpoints than a process may have files open.
CheckpointState LookAt(const CheckpointFolder& folder, bool all_bytes) {
  const auto reader = CheckpointReader::Open(folder.path);
  if (!reader.ok()) return {folder, reader.status(), absl::nullopt};
  const absl::Status status = all_bytes ? (*reader)->Verify() : absl::OkStatus();
  return {folder, status, (*reader)->manifest()};
}

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Returns the folder of `step`, or all of them.
absl::StatusOr<std::vector<CheckpointFolder>> FoldersOf(const std::string& run_dir,
                                                        absl::optional<int64_t> step) {
  absl::StatusOr<std::vector<CheckpointFolder>> folders = ListCheckpoints(run_dir);
  if (!folders.ok() || !step.has_value()) return folders;
  for (const CheckpointFolder& folder : *folders) {
    if (folder.step == *step) return std::vector<CheckpointFolder>{folder};
  }
  const std::string steps = absl::StrJoin(
      *folders, ", ",
      [](std::string* out, const CheckpointFolder& folder) { absl::StrAppend(out, folder.step); });
  return absl::NotFoundError(absl::StrCat(run_dir, ": got step ", *step, ", expected one of ",
                                          steps.empty() ? "no checkpoints" : steps));
}

}  // namespace

absl::StatusOr<std::vector<CheckpointState>> ScanRunDir(const std::string& run_dir,
                                                        absl::optional<int64_t> step) {
  absl::StatusOr<std::vector<CheckpointFolder>> folders = FoldersOf(run_dir, step);
  if (!folders.ok()) return folders.status();
  std::vector<CheckpointState> states;
  for (const CheckpointFolder& folder : *folders) {
    CheckpointState state = LookAt(folder, /*all_bytes=*/false);
    if (state.status.ok() || Exists(state.folder.path)) states.push_back(std::move(state));
  }
  return states;
}

void VerifyAll(std::vector<CheckpointState>* states) {
  std::vector<CheckpointState> left;
  for (CheckpointState& state : *states) {
    if (state.status.ok()) state = LookAt(state.folder, /*all_bytes=*/true);
    if (state.status.ok() || Exists(state.folder.path)) left.push_back(std::move(state));
  }
  *states = std::move(left);
}

absl::StatusOr<std::unique_ptr<CheckpointReader>> OpenCheckpoint(
    const std::string& run_dir, absl::optional<int64_t> step, std::vector<std::string>* skipped) {
  const absl::StatusOr<std::vector<CheckpointFolder>> folders = FoldersOf(run_dir, step);
  if (!folders.ok()) return folders.status();
  if (folders->empty()) {
    return absl::NotFoundError(absl::StrCat(run_dir, ": has no checkpoint"));
  }
  std::vector<std::string> reasons;
  for (const CheckpointFolder& folder : *folders) {
    auto reader = CheckpointReader::Open(folder.path);
    const absl::Status status = reader.ok() ? (*reader)->Verify() : reader.status();
    if (status.ok()) {
      *skipped = std::move(reasons);
      return reader;
    }
    reasons.emplace_back(status.message());
  }
  return absl::InvalidArgumentError(absl::StrCat(
      run_dir, ": got no sound checkpoint, expected one: ", absl::StrJoin(reasons, "; ")));
}

absl::Status KeepNewest(const std::string& run_dir, int64_t last, int count, Disk* disk) {
  const absl::StatusOr<std::vector<CheckpointFolder>> folders = ListCheckpoints(run_dir);
  if (!folders.ok()) return folders.status();
  int sound = 0;
  std::vector<CheckpointFolder> old;
  for (const CheckpointFolder& folder : *folders) {
    if (folder.step > last) continue;
    if (sound == count) {
      old.push_back(folder);
    } else if (CheckpointReader::Open(folder.path).ok()) {
      ++sound;
    }
  }
  return RemoveCheckpoints(run_dir, std::move(old), disk);
}

}  // namespace gradwire
