#include "common/base/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/address.h"
#include "common/base/output_file.h"

namespace gradwire {
namespace {

// Returns OK for the result 0 of a system call, or else the reason in errno.
absl::Status StatusOf(int result, const std::string& path) {
  if (result == 0) return absl::OkStatus();
  const int error = errno;
  const std::string sentence = CannotWrite(path, error);
  if (error == EEXIST || error == ENOTEMPTY) return absl::AlreadyExistsError(sentence);
  const bool is_full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return is_full ? absl::ResourceExhaustedError(sentence) : absl::InternalError(sentence);
}

class RealFile : public DiskFile {
 public:
  RealFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  absl::Status Write(int64_t offset, absl::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = pwrite(fd_.get(), bytes.data(), bytes.size(), offset);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return StatusOf(-1, path_);
      bytes.remove_prefix(static_cast<size_t>(written));
      offset += written;
    }
    return absl::OkStatus();
  }

  absl::Status Truncate(int64_t bytes) override {
    return StatusOf(ftruncate(fd_.get(), bytes), path_);
  }

  absl::Status Sync() override { return StatusOf(fsync(fd_.get()), path_); }

 private:
  const std::string path_;
  const UniqueFd fd_;
};

class OfThisMachine : public Disk {
 public:
  absl::StatusOr<std::unique_ptr<DiskFile>> Create(const std::string& path) override {
    UniqueFd fd(open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (fd.get() < 0) return StatusOf(-1, path);
    return std::make_unique<RealFile>(path, std::move(fd));
  }
  absl::Status MakeFolder(const std::string& path) override {
    return StatusOf(mkdir(path.c_str(), 0777), path);
  }
  absl::Status Truncate(const std::string& path, int64_t size) override {
    const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
    if (fd.get() < 0 || ftruncate(fd.get(), size) != 0) return StatusOf(-1, path);
    return StatusOf(fsync(fd.get()), path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return StatusOf(std::rename(from.c_str(), to.c_str()), to);
  }
  absl::Status Remove(const std::string& path) override {
    return StatusOf(std::remove(path.c_str()), path);
  }
  absl::Status SyncFolder(const std::string& path) override {
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.get() < 0) return StatusOf(-1, path);
    if (fsync(fd.get()) != 0 && errno != EINVAL) return StatusOf(-1, path);
    return absl::OkStatus();
  }
};

}  // namespace

Disk& RealDisk() {
  static OfThisMachine disk;
  static const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  (void)old_handler;
  return disk;
}

}  // namespace gradwire
