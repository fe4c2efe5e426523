#include "common/state/run_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/base/output_file.h"
#include "common/base/status_util.h"

namespace gradwire {
namespace {

constexpr char kPrefix[] = "step-";
constexpr size_t kDigits = 12;

absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator it(folder, error);
  for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    names.push_back(it->path().filename());
  }
  if (error) {
    const std::string what = absl::StrCat("cannot read ", folder, ": ", error.message());
    // A caller takes NotFound for "no checkpoints", so a disk that fails must not give it.
    const bool is_none =
        error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
    return is_none ? absl::NotFoundError(what) : absl::InternalError(what);
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status RemoveFolder(const std::string& folder, Disk* disk) {
  const absl::StatusOr<std::vector<std::string>> names = NamesIn(folder);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    absl::Status status = disk->Remove(absl::StrCat(folder, "/", name));
    if (!status.ok()) return status;
  }
  return disk->Remove(folder);
}

// Creates the directory if it does not exist.
absl::Status MakeRunDir(const std::string& run_dir) {
  if (mkdir(run_dir.c_str(), 0777) != 0) {
    if (errno == EEXIST) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("run directory: cannot create ", run_dir, ": ", std::strerror(errno)));
  }
  const std::string parent =
      std::filesystem::path(std::string(absl::StripSuffix(run_dir, "/"))).parent_path().string();
  return RealDisk().SyncFolder(parent.empty() ? "." : parent);
}

}  // namespace

std::string CheckpointName(int64_t step) {
  return absl::StrFormat("%s%0*d", kPrefix, static_cast<int>(kDigits), step);
}

absl::optional<int64_t> ParseCheckpointName(absl::string_view name) {
  int64_t step = 0;
  if (!absl::ConsumePrefix(&name, kPrefix) || name.size() < kDigits ||
      name.find_first_not_of("0123456789") != absl::string_view::npos ||
      !absl::SimpleAtoi(name, &step) || CheckpointName(step) != absl::StrCat(kPrefix, name)) {
    return absl::nullopt;
  }
  return step;
}

absl::StatusOr<RunDirLock> RunDirLock::Take(const std::string& run_dir) {
  absl::Status status = MakeRunDir(run_dir);
  if (!status.ok()) return status;
  UniqueFd folder(open(run_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 || access(run_dir.c_str(), W_OK | X_OK) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("run directory: ", CannotWrite(run_dir, errno)));
  }
  if (flock(folder.get(), LOCK_EX | LOCK_NB) == 0) return RunDirLock(std::move(folder));
  if (errno == EWOULDBLOCK) {
    return absl::UnavailableError(absl::StrCat("run directory ", run_dir,
                                               ": another coordinator uses it; wait until that run "
                                               "ends, or use another directory"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("run directory: cannot lock ", run_dir, ": ", std::strerror(errno)));
}

absl::StatusOr<std::vector<CheckpointFolder>> ListCheckpoints(const std::string& run_dir) {
  const absl::StatusOr<std::vector<std::string>> names = NamesIn(run_dir);
  if (!names.ok()) return names.status();
  std::vector<CheckpointFolder> folders;
  for (const std::string& name : *names) {
    const absl::optional<int64_t> step = ParseCheckpointName(name);
    if (step.has_value()) folders.push_back({*step, absl::StrCat(run_dir, "/", name)});
  }
  std::sort(folders.begin(), folders.end(),
            [](const CheckpointFolder& a, const CheckpointFolder& b) { return a.step > b.step; });
  return folders;
}

absl::Status RemoveLeftovers(const std::string& run_dir, Disk* disk) {
  const absl::StatusOr<std::vector<std::string>> names = NamesIn(run_dir);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    absl::string_view published = name;
    if (!absl::ConsumeSuffix(&published, kUnpublished)) continue;
    absl::ConsumeSuffix(&published, kReplaced);
    if (!ParseCheckpointName(published).has_value()) continue;
    absl::Status status = RemoveFolder(absl::StrCat(run_dir, "/", name), disk);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RemoveCheckpoints(const std::string& run_dir,
                               std::vector<CheckpointFolder> checkpoints, Disk* disk) {
  std::sort(checkpoints.begin(), checkpoints.end(),
            [](const CheckpointFolder& a, const CheckpointFolder& b) { return a.step < b.step; });
  for (const CheckpointFolder& checkpoint : checkpoints) {
    const std::string unpublished = absl::StrCat(checkpoint.path, kUnpublished);
    absl::Status status = disk->Rename(checkpoint.path, unpublished);
    if (status.ok()) status = disk->SyncFolder(run_dir);
    if (status.ok()) status = RemoveFolder(unpublished, disk);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace gradwire
