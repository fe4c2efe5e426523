#ifndef GRADWIRE_TESTS_SUPPORT_RECORDING_DISK_H_
#define GRADWIRE_TESTS_SUPPORT_RECORDING_DISK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/disk.h"

namespace gradwire::testing {

// An operation on the disk, as it was asked for.
struct DiskOperation {
  enum class Kind { kCreate, kMakeFolder, kWrite, kTruncate, kSync, kSyncFolder, kRename, kRemove };
  Kind kind;
  std::string path;
  std::string to;      // of a rename
  int64_t offset = 0;  // of a write; the size of a truncation
  std::string bytes;   // of a write
};

// The real disk, and a record of what was done to it. One operation can be made to fail.
class RecordingDisk : public Disk {
 public:
  absl::StatusOr<std::unique_ptr<DiskFile>> Create(const std::string& path) override;
  absl::Status MakeFolder(const std::string& path) override;
  absl::Status Truncate(const std::string& path, int64_t size) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status SyncFolder(const std::string& path) override;

  const std::vector<DiskOperation>& operations() const { return operations_; }
  // Lets the operation with this number fail, counted from 0 over all.
  void FailAt(size_t number, absl::Status status) { faults_[number] = std::move(status); }
  // Records it and returns the status that it is to have.
  absl::Status Record(DiskOperation operation);

 private:
  std::vector<DiskOperation> operations_;
  std::map<size_t, absl::Status> faults_;
};

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_SUPPORT_RECORDING_DISK_H_
