#include "tests/support/recording_disk.h"

#include <filesystem>
#include <utility>

namespace gradwire::testing {
namespace {

using Kind = DiskOperation::Kind;

class RecordingFile : public DiskFile {
 public:
  RecordingFile(std::string path, std::unique_ptr<DiskFile> file, RecordingDisk* disk)
      : path_(std::move(path)), file_(std::move(file)), disk_(disk) {}

  absl::Status Write(int64_t offset, absl::string_view bytes) override {
    absl::Status status = disk_->Record({Kind::kWrite, path_, "", offset, std::string(bytes)});
    return status.ok() ? file_->Write(offset, bytes) : status;
  }
  absl::Status Truncate(int64_t bytes) override {
    absl::Status status = disk_->Record({Kind::kTruncate, path_, "", bytes, ""});
    return status.ok() ? file_->Truncate(bytes) : status;
  }
  absl::Status Sync() override {
    absl::Status status = disk_->Record({Kind::kSync, path_, "", 0, ""});
    return status.ok() ? file_->Sync() : status;
  }

 private:
  const std::string path_;
  const std::unique_ptr<DiskFile> file_;
  RecordingDisk* const disk_;
};

}  // namespace

absl::Status RecordingDisk::Record(DiskOperation operation) {
  const auto fault = faults_.find(operations_.size());
  operations_.push_back(std::move(operation));
  return fault == faults_.end() ? absl::OkStatus() : fault->second;
}

absl::StatusOr<std::unique_ptr<DiskFile>> RecordingDisk::Create(const std::string& path) {
  absl::Status status = Record({Kind::kCreate, path, "", 0, ""});
  if (!status.ok()) return status;
  auto file = RealDisk().Create(path);
  if (!file.ok()) return file.status();
  return std::make_unique<RecordingFile>(path, *std::move(file), this);
}

absl::Status RecordingDisk::MakeFolder(const std::string& path) {
  if (std::filesystem::exists(path)) return RealDisk().MakeFolder(path);  // changes nothing
  absl::Status status = Record({Kind::kMakeFolder, path, "", 0, ""});
  return status.ok() ? RealDisk().MakeFolder(path) : status;
}

absl::Status RecordingDisk::Truncate(const std::string& path, int64_t size) {
  absl::Status status = Record({Kind::kTruncate, path, "", size, ""});
  return status.ok() ? RealDisk().Truncate(path, size) : status;
}

absl::Status RecordingDisk::Rename(const std::string& from, const std::string& to) {
  absl::Status status = Record({Kind::kRename, from, to, 0, ""});
  return status.ok() ? RealDisk().Rename(from, to) : status;
}

absl::Status RecordingDisk::Remove(const std::string& path) {
  absl::Status status = Record({Kind::kRemove, path, "", 0, ""});
  return status.ok() ? RealDisk().Remove(path) : status;
}

absl::Status RecordingDisk::SyncFolder(const std::string& path) {
  absl::Status status = Record({Kind::kSyncFolder, path, "", 0, ""});
  return status.ok() ? RealDisk().SyncFolder(path) : status;
}

}  // namespace gradwire::testing
