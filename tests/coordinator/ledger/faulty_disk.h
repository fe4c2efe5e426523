#ifndef GRADWIRE_TESTS_COORDINATOR_LEDGER_FAULTY_DISK_H_
#define GRADWIRE_TESTS_COORDINATOR_LEDGER_FAULTY_DISK_H_

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "common/base/disk.h"

namespace gradwire::testing {

// The disk of this machine, which fails on demand. Only segments of the ledger fail.
class FaultyDisk : public Disk {
 public:
  // Segments may become that long; the rest of a write is lost.
  std::atomic<int64_t> capacity{int64_t{1} << 40};
  // More than that, once the reserve is removed.
  std::atomic<int64_t> reserved{0};
  std::atomic<int> failing_syncs{0};  // the next ones fail
  std::atomic<int> syncs{0};          // of segments, successful or not
  std::atomic<int> ledger_syncs{0};   // of the folder of segments
  std::atomic<int> failing_ledger_syncs{0};
  std::atomic<bool> truncates{true};

  absl::StatusOr<std::unique_ptr<DiskFile>> Create(const std::string& path) override {
    auto file = RealDisk().Create(path);
    if (!file.ok() || !absl::EndsWith(path, ".log")) return file;
    return std::make_unique<File>(this, *std::move(file));
  }
  absl::Status MakeFolder(const std::string& path) override { return RealDisk().MakeFolder(path); }
  absl::Status Truncate(const std::string& path, int64_t size) override {
    return RealDisk().Truncate(path, size);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return RealDisk().Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override {
    if (absl::EndsWith(path, "/reserve")) capacity += reserved.exchange(0);
    return RealDisk().Remove(path);
  }
  absl::Status SyncFolder(const std::string& path) override {
    if (!absl::EndsWith(path, "/ledger")) return RealDisk().SyncFolder(path);
    ++ledger_syncs;
    if (failing_ledger_syncs == 0) return RealDisk().SyncFolder(path);
    --failing_ledger_syncs;
    return absl::InternalError("input/output error");
  }

 private:
  class File : public DiskFile {
   public:
    File(FaultyDisk* disk, std::unique_ptr<DiskFile> file) : disk_(disk), file_(std::move(file)) {}

    absl::Status Write(int64_t offset, absl::string_view bytes) override {
      const int64_t room = std::max<int64_t>(0, disk_->capacity - offset);
      const bool fits = static_cast<int64_t>(bytes.size()) <= room;
      const absl::Status written = file_->Write(offset, bytes.substr(0, static_cast<size_t>(room)));
      return fits ? written : absl::ResourceExhaustedError("no space left on device");
    }
    absl::Status Truncate(int64_t bytes) override {
      if (!disk_->truncates) return absl::InternalError("the disk is gone");
      return file_->Truncate(bytes);
    }
    absl::Status Sync() override {
      ++disk_->syncs;
      if (disk_->failing_syncs > 0) {
        --disk_->failing_syncs;
        return absl::InternalError("input/output error");
      }
      return file_->Sync();
    }

   private:
    FaultyDisk* const disk_;
    const std::unique_ptr<DiskFile> file_;
  };
};

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_COORDINATOR_LEDGER_FAULTY_DISK_H_
