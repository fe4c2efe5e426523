#include "common/base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace gradwire {
namespace {

// For a new file; never follows a link made by another user.
constexpr int kNew = O_CREAT | O_EXCL | O_NOFOLLOW;

// The target of a path.
struct Target {
  std::string path;      // without links, if it exists
  bool replace = false;  // by a new file: the target is a regular file or does not exist
};

Target Resolve(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr),
                                                         &std::free);
  Target target;
  target.path = real == nullptr ? path : real.get();
  if (OwnDescriptor(path).has_value()) return {path, /*replace=*/false};
  struct stat info = {};
  target.replace = stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode);
  // A pipe or a deleted file has a name only through the link.
  if (real == nullptr || !target.replace) target.path = path;
  return target;
}

// Returns a name in the target's folder, so that a rename is atomic. It is random, so that no other
// user can place a link there.
std::string Temporary(const Target& target) {
  std::random_device random;
  return absl::StrCat(target.path, ".", absl::Hex(random(), absl::kZeroPad8),
                      absl::Hex(random(), absl::kZeroPad8), ".tmp");
}

int Open(const std::string& path, int flags) {
  if (const absl::optional<int> own = OwnDescriptor(path)) return fcntl(*own, F_DUPFD_CLOEXEC, 0);
  return open(path.c_str(), flags | O_WRONLY | O_CLOEXEC | O_NOCTTY, 0666);
}

// A file that is written piece by piece. After the first error it drops pieces.
class PieceFile {
 public:
  PieceFile(const std::string& path, int flags)
      : fd_(Open(path, flags)), error_(fd_ < 0 ? errno : 0) {}
  ~PieceFile() { Close(); }
  PieceFile(const PieceFile&) = delete;
  PieceFile& operator=(const PieceFile&) = delete;

  void Write(absl::string_view piece) {
    while (error_ == 0 && !piece.empty()) {
      const ssize_t written = write(fd_, piece.data(), piece.size());
      if (written < 0 && errno != EINTR) error_ = errno;
      if (written > 0) piece.remove_prefix(static_cast<size_t>(written));
    }
  }
  void Sync() {
    if (error_ == 0 && fsync(fd_) != 0) error_ = errno;
  }
  // Returns 0, or the errno of the first failure.
  int Close() {
    if (fd_ >= 0 && close(fd_) != 0 && error_ == 0) error_ = errno;
    fd_ = -1;
    return error_;
  }

 private:
  int fd_;
  int error_;
};

// Each of these returns 0, or the errno of the first failure. WriteInPlace, WriteNew and Replace
// also write the result of `content` to `made`; if that is an error, the file is to be dropped.

int WriteInPlace(const std::string& path, const WriteContent& content, absl::Status* made) {
  PieceFile file(path, 0);
  *made = content([&file](absl::string_view piece) { file.Write(piece); });
  return file.Close();
}

// Makes the new name of a file in the folder durable. Ignores a folder that this process cannot
// read and so cannot open, and file systems that cannot sync a folder.
int SyncFolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  const int fd = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno == EACCES ? 0 : errno;
  const int error = fsync(fd) == 0 || errno == EINVAL ? 0 : errno;
  close(fd);
  return error;
}

int WriteNew(const std::string& path, const WriteContent& content, absl::Status* made) {
  PieceFile file(path, kNew);
  *made = content([&file](absl::string_view piece) { file.Write(piece); });
  file.Sync();
  return file.Close();
}

int Replace(const Target& target, const WriteContent& content, absl::Status* made) {
  const std::string temporary = Temporary(target);
  int error = WriteNew(temporary, content, made);
  const bool is_whole = error == 0 && made->ok();
  if (is_whole && std::rename(temporary.c_str(), target.path.c_str()) != 0) error = errno;
  if (is_whole && error == 0) return SyncFolderOf(target.path);
  unlink(temporary.c_str());
  return error;
}

// Does not open the file: the reader of a pipe would take the close for its end.
int MayWriteInPlace(const std::string& path) {
  if (const absl::optional<int> own = OwnDescriptor(path)) {
    const int flags = fcntl(*own, F_GETFL);
    if (flags < 0) return errno;
    return (flags & O_ACCMODE) == O_RDONLY ? EBADF : 0;
  }
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return errno;
  if (S_ISDIR(info.st_mode)) return EISDIR;
  return access(path.c_str(), W_OK) == 0 ? 0 : errno;
}

int MayReplace(const Target& target) {
  const std::string temporary = Temporary(target);
  const int fd = Open(temporary, kNew);
  if (fd < 0) return errno;
  close(fd);
  unlink(temporary.c_str());
  return 0;
}

}  // namespace

std::string CannotWrite(absl::string_view path, int error) {
  return absl::StrCat("cannot write ", path, ": ", absl::AsciiStrToLower(std::strerror(error)));
}

absl::optional<int> OwnDescriptor(absl::string_view path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  int number = 0;
  if (!absl::ConsumePrefix(&path, "/dev/fd/") && !absl::ConsumePrefix(&path, "/proc/self/fd/")) {
    return absl::nullopt;
  }
  if (!absl::SimpleAtoi(path, &number) || number < 0) return absl::nullopt;
  return number;
}

std::FILE* OpenOutput(absl::string_view path, const char* mode) {
  const absl::optional<int> own = OwnDescriptor(path);
  if (!own.has_value())
    return std::fopen(std::string(path).c_str(), absl::StrCat(mode, "e").c_str());
  const int fd = fcntl(*own, F_DUPFD_CLOEXEC, 0);
  std::FILE* const file = fd < 0 ? nullptr : fdopen(fd, "a");
  if (file == nullptr && fd >= 0) close(fd);
  return file;
}

absl::Status ReplaceFile(absl::string_view path, absl::string_view text) {
  return ReplaceFile(path, [text](const WritePiece& write) {
    write(text);
    return absl::OkStatus();
  });
}

absl::Status ReplaceFile(absl::string_view path, const WriteContent& content) {
  const Target target = Resolve(std::string(path));
  absl::Status made;
  const int error =
      target.replace ? Replace(target, content, &made) : WriteInPlace(target.path, content, &made);
  if (error != 0) return absl::InternalError(CannotWrite(path, error));
  return made;
}

std::string PathOfRank(absl::string_view path, Rank rank) {
  return absl::StrReplaceAll(path, {{"{rank}", absl::StrCat(rank.value())}});
}

bool operator==(const FileMark& a, const FileMark& b) {
  return a.file == b.file && a.bytes == b.bytes && a.written == b.written;
}

absl::optional<FileMark> MarkOf(const std::string& path) {
  struct stat info = {};
  const bool is_file = stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
  if (!is_file || OwnDescriptor(path).has_value()) return absl::nullopt;
  return FileMark{info.st_ino, info.st_size, absl::TimeFromTimespec(info.st_mtim)};
}

absl::Status CheckWritable(absl::string_view path) {
  const Target target = Resolve(std::string(path));
  const int error = target.replace ? MayReplace(target) : MayWriteInPlace(target.path);
  if (error != 0) return absl::InvalidArgumentError(CannotWrite(path, error));
  return absl::OkStatus();
}

}  // namespace gradwire
