#ifndef GRADWIRE_COMMON_BASE_DISK_H_
#define GRADWIRE_COMMON_BASE_DISK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// All that durable state does to a disk. Tests replace it to record the operations, or to let one
// fail. Statuses, unless a method says otherwise:
//   ResourceExhausted  "cannot write PATH: no space left on device"; also for quotas and limits
//   Internal           "cannot write PATH: …"
// Thread-safe for different files and names.

// A file that is open for writing. The destructor closes it and ignores errors.
class DiskFile {
 public:
  virtual ~DiskFile() = default;
  // Writes all of `bytes` from byte `offset` of the file on. After an error a part may be written.
  virtual absl::Status Write(int64_t offset, absl::string_view bytes) = 0;
  // Cuts the file after `bytes` bytes.
  virtual absl::Status Truncate(int64_t bytes) = 0;
  // Returns once the content is on the disk. After an error the content may be lost although a
  // second call would succeed, so give the file up.
  virtual absl::Status Sync() = 0;
};

class Disk {
 public:
  virtual ~Disk() = default;
  // Creates a new file. AlreadyExists if the name is taken.
  virtual absl::StatusOr<std::unique_ptr<DiskFile>> Create(const std::string& path) = 0;
  // AlreadyExists if the name is taken.
  virtual absl::Status MakeFolder(const std::string& path) = 0;
  // Cuts a file after its first `size` bytes; once it returns, the cut is on the disk.
  virtual absl::Status Truncate(const std::string& path, int64_t size) = 0;
  // Moves a file or folder to a name that is free, or that of a file.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // Removes a file, or an empty folder.
  virtual absl::Status Remove(const std::string& path) = 0;
  // Makes the names in a folder durable. Does nothing on file systems that cannot sync a folder, as
  // some network shares.
  virtual absl::Status SyncFolder(const std::string& path) = 0;
};

// The disk of this machine. From the first call on the process ignores SIGXFSZ, so that a file
// beyond ulimit -f is ResourceExhausted and does not end the process.
Disk& RealDisk();

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_DISK_H_
