#include "common/base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace gradwire {
namespace {

// Of a file that was not there: nobody's link is followed.
constexpr int kNew = O_CREAT | O_EXCL | O_NOFOLLOW;

// What a path leads to.
struct Target {
  std::string path;      // without links, if it exists
  bool replace = false;  // by a new file: a regular file, or nothing yet
};

Target Resolve(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr),
                                                         &std::free);
  Target target;
  target.path = real == nullptr ? path : real.get();
  struct stat info = {};
  target.replace = stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode);
  // A pipe or a deleted file has a name only by the link.
  if (real == nullptr || !target.replace) target.path = path;
  return target;
}

// In the target's folder, so that a rename is one move; a name that nobody can foresee and put a
// link there.
std::string Temporary(const Target& target) {
  std::random_device random;
  return absl::StrCat(target.path, ".", absl::Hex(random(), absl::kZeroPad8),
                      absl::Hex(random(), absl::kZeroPad8), ".tmp");
}

// 0, or the errno.
int WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

int Open(const std::string& path, int flags) {
  return open(path.c_str(), flags | O_WRONLY | O_CLOEXEC | O_NOCTTY, 0666);
}

// 0, or the errno of what failed first.
int WriteInPlace(const std::string& path, absl::string_view text) {
  const int fd = Open(path, 0);
  if (fd < 0) return errno;
  const int error = WriteAll(fd, text);
  const int close_error = close(fd) == 0 ? 0 : errno;
  return error != 0 ? error : close_error;
}

int WriteSynced(int fd, absl::string_view text) {
  int error = WriteAll(fd, text);
  if (error == 0 && fsync(fd) != 0) error = errno;
  if (close(fd) != 0 && error == 0) error = errno;
  return error;
}

int Replace(const Target& target, absl::string_view text) {
  const std::string temporary = Temporary(target);
  const int fd = Open(temporary, kNew);
  if (fd < 0) return errno;
  int error = WriteSynced(fd, text);
  if (error == 0 && std::rename(temporary.c_str(), target.path.c_str()) != 0) error = errno;
  if (error != 0) unlink(temporary.c_str());
  return error;
}

// Opens nothing: the reader of a pipe would take the close for its end.
int MayWriteInPlace(const std::string& path) {
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

absl::Status ReplaceFile(absl::string_view path, absl::string_view text) {
  const Target target = Resolve(std::string(path));
  const int error = target.replace ? Replace(target, text) : WriteInPlace(target.path, text);
  if (error != 0) return absl::InternalError(CannotWrite(path, error));
  return absl::OkStatus();
}

std::string PathOfRank(absl::string_view path, Rank rank) {
  return absl::StrReplaceAll(path, {{"{rank}", absl::StrCat(rank.value())}});
}

absl::Status CheckWritable(absl::string_view path) {
  const Target target = Resolve(std::string(path));
  const int error = target.replace ? MayReplace(target) : MayWriteInPlace(target.path);
  if (error != 0) return absl::InvalidArgumentError(CannotWrite(path, error));
  return absl::OkStatus();
}

}  // namespace gradwire
