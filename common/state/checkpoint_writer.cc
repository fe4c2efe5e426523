#include "common/state/checkpoint_writer.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_util.h"
#include "common/state/finite.h"
#include "common/state/run_dir.h"
#include "common/wire/chunk.h"

namespace gradwire {

absl::StatusOr<std::unique_ptr<CheckpointWriter>> CheckpointWriter::Open(const std::string& run_dir,
                                                                         int64_t step,
                                                                         StatePlan plan, Disk* disk,
                                                                         IfPublished if_published) {
  std::unique_ptr<CheckpointWriter> writer(
      new CheckpointWriter(run_dir, step, std::move(plan), disk, if_published));
  absl::Status status = writer->Create();
  if (!status.ok()) return status;
  return writer;
}

CheckpointWriter::CheckpointWriter(const std::string& run_dir, int64_t step, StatePlan plan,
                                   Disk* disk, IfPublished if_published)
    : run_dir_(run_dir),
      step_(step),
      plan_(std::move(plan)),
      disk_(disk),
      if_published_(if_published),
      folder_(absl::StrCat(run_dir, "/", CheckpointName(step))),
      temporary_(absl::StrCat(folder_, kUnpublished)),
      replaced_(absl::StrCat(folder_, kReplaced, kUnpublished)),
      hashes_(plan_.parts().size()),
      missing_(static_cast<int>(plan_.parts().size())) {}

CheckpointWriter::~CheckpointWriter() {
  files_.clear();
  // After an error of the disk this may fail as well; the next RemoveLeftovers tries again.
  if (!published_ && created_) RemoveLeftovers(run_dir_, disk_).IgnoreError();
}

bool CheckpointWriter::IsPublished() const {
  struct stat info = {};
  return stat(folder_.c_str(), &info) == 0;
}

absl::Status CheckpointWriter::Create() {
  if (if_published_ == IfPublished::kRefuse && IsPublished()) {
    return absl::AlreadyExistsError(absl::StrCat(folder_, ": this checkpoint exists already"));
  }
  absl::Status status = RemoveLeftovers(run_dir_, disk_);
  if (status.ok()) status = disk_->MakeFolder(temporary_);
  created_ = status.ok();
  for (size_t i = 0; status.ok() && i < plan_.files().size(); ++i) {
    const StateFile& file = plan_.files()[i];
    auto created = disk_->Create(absl::StrCat(temporary_, "/", file.name));
    if (!created.ok()) return created.status();
    files_.push_back(*std::move(created));
    status = files_.back()->Write(0, file.header);
  }
  return status;
}

absl::Status CheckpointWriter::Write(int part, absl::string_view bytes) {
  const std::string what = absl::StrCat("checkpoint of step ", step_, ", part ", part);
  if (part < 0 || part >= static_cast<int>(hashes_.size())) {
    return Unexpected(what, "that number", absl::StrCat("one below ", hashes_.size()));
  }
  const StatePart& place = plan_.parts()[part];
  if (hashes_[part].has_value() || static_cast<int64_t>(bytes.size()) != place.bytes) {
    return Unexpected(what,
                      hashes_[part].has_value() ? "it again" : absl::StrCat(bytes.size(), " bytes"),
                      absl::StrCat(place.bytes, " bytes, once"));
  }
  const auto at = static_cast<int64_t>(plan_.files()[place.file].header.size()) + place.begin;
  absl::Status status = files_[place.file]->Write(at, bytes);
  if (!status.ok()) return status;
  if (non_finite_.ok()) non_finite_ = CheckFinite(plan_, part, bytes);
  hashes_[part] = Checksum(bytes);
  --missing_;
  return absl::OkStatus();
}

void CheckpointWriter::FillIn(Manifest* manifest) const {
  std::vector<uint64_t> hashes;
  for (const absl::optional<uint64_t>& hash : hashes_) hashes.push_back(*hash);
  manifest->step = step_;
  manifest->part_bytes = plan_.part_bytes();
  manifest->file_bytes = plan_.file_bytes();
  manifest->digests.clear();
  for (size_t i = 0; i < plan_.sections().size(); ++i) {
    manifest->digests[plan_.sections()[i].name] = plan_.DigestOf(static_cast<int>(i), hashes);
  }
  manifest->files.clear();
  for (const StateFile& file : plan_.files()) {
    manifest->files.push_back({file.name,
                               plan_.sections()[file.section].name,
                               static_cast<int64_t>(file.header.size()) + file.value_bytes,
                               Checksum(file.header),
                               {}});
  }
  for (size_t i = 0; i < hashes.size(); ++i) {
    manifest->files[plan_.parts()[i].file].parts.push_back(hashes[i]);
  }
}

// The order is docs/checkpoint-format.md's.
absl::Status CheckpointWriter::MakeDurable(const std::string& manifest) {
  absl::Status status;
  for (const std::unique_ptr<DiskFile>& file : files_) {
    status = file->Sync();
    if (!status.ok()) return status;
  }
  files_.clear();
  auto created = disk_->Create(absl::StrCat(temporary_, "/", kManifestName));
  if (!created.ok()) return created.status();
  status = (*created)->Write(0, manifest);
  if (status.ok()) status = (*created)->Sync();
  if (status.ok()) status = disk_->SyncFolder(temporary_);
  return status;
}

absl::StatusOr<std::string> CheckpointWriter::Publish(Manifest manifest) {
  if (missing_ > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint of step ", step_, ": ", missing_, " parts are missing"));
  }
  if (!non_finite_.ok()) {
    return Annotate(non_finite_, absl::StrCat("checkpoint of step ", step_));
  }
  FillIn(&manifest);
  absl::Status status = MakeDurable(WriteManifest(manifest));
  if (status.ok()) status = TakeName();
  if (!status.ok()) return status;
  published_ = true;
  status = disk_->SyncFolder(run_dir_);
  if (!status.ok()) return status;
  // The next writer tries again.
  if (if_published_ == IfPublished::kReplace) RemoveLeftovers(run_dir_, disk_).IgnoreError();
  return folder_;
}

absl::Status CheckpointWriter::TakeName() {
  if (!IsPublished()) return disk_->Rename(temporary_, folder_);
  absl::Status status = disk_->Rename(folder_, replaced_);
  if (!status.ok()) return status;
  status = disk_->Rename(temporary_, folder_);
  if (!status.ok()) disk_->Rename(replaced_, folder_).IgnoreError();
  return status;
}

}  // namespace gradwire
