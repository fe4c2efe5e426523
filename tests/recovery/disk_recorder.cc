// A library for LD_PRELOAD. It appends to the file DISK_LOG each operation on files and folders
// below the folder DISK_ROOT, as one line:
//
//   KIND PATH TO OFFSET BYTES      separated by tabs; BYTES in hexadecimal
//
// Both variables are absolute and without links. tests/recovery/power_cut_main.cc reads the log.
//
// DISK_STOP_AFTER, if it is set, has lines "KIND PATH", relative to DISK_ROOT, with "step-*" for
// the folder of any checkpoint. Once these operations were done in this order, whatever else was
// between them, the process appends the line "stopped" to the log, and stops itself. All calls that
// it watches are in this file; a program that changes a file by another one, such as mmap, would
// not be seen.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

namespace {

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Operations are recorded in the order in which they happen.
std::mutex& Order() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

bool IsWatched(const std::string& path) {
  static const auto* const root = new std::string(Variable("DISK_ROOT"));
  return !root->empty() && (path == *root || path.rfind(*root + "/", 0) == 0);
}

std::string PathOf(int fd) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = syscall(SYS_readlinkat, AT_FDCWD, link.c_str(), path, sizeof(path));
  return size < 0 ? "" : std::string(path, static_cast<size_t>(size));
}

// Returns an absolute path.
std::string Absolute(const char* path) {
  if (path[0] == '/') return path;
  char folder[4096];
  return syscall(SYS_getcwd, folder, sizeof(folder)) < 0 ? path : std::string(folder) + "/" + path;
}

// Returns the path as DISK_STOP_AFTER has it; "." for DISK_ROOT.
std::string NameOf(const std::string& path) {
  const std::string root = Variable("DISK_ROOT");
  std::string name = path == root ? "." : path.substr(root.size() + 1);
  if (name.rfind("step-", 0) == 0)
    name.replace(5, name.find_first_not_of("0123456789", 5) - 5, "*");
  return name;
}

void Append(int log, const std::string& line) {
  // A log that cannot be written would hide faults.
  if (syscall(SYS_write, log, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    std::abort();
  }
}

// Needs Order().
void StopIfDue(int log, const char* kind, const std::string& path) {
  static auto* const rest = new std::string(Variable("DISK_STOP_AFTER"));
  if (rest->empty()) return;
  const size_t end = rest->find('\n');
  if (rest->substr(0, end) != std::string(kind) + " " + NameOf(path)) return;
  rest->erase(0, end == std::string::npos ? end : end + 1);
  if (!rest->empty()) return;
  Append(log, "stopped\n");
  raise(SIGSTOP);
}

void Record(const char* kind, const std::string& path, const std::string& to = "",
            int64_t offset = 0, const std::string& bytes = "") {
  static const int log =
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, Variable("DISK_LOG").c_str(),
                               O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  std::string line =
      std::string(kind) + "\t" + path + "\t" + to + "\t" + std::to_string(offset) + "\t";
  for (const char byte : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    line += kDigits[static_cast<unsigned char>(byte) >> 4];
    line += kDigits[byte & 15];
  }
  Append(log, line + "\n");
  StopIfDue(log, kind, path);
}

int Open(const char* path, int flags, mode_t mode) {
  const std::string absolute = Absolute(path);
  const std::lock_guard<std::mutex> lock(Order());
  struct stat info = {};
  const bool is_new = (flags & O_CREAT) != 0 && IsWatched(absolute) && stat(path, &info) != 0;
  const auto fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
  if (is_new && fd >= 0) Record("create", absolute);
  return fd;
}

ssize_t WriteAt(int fd, const void* bytes, size_t count, int64_t offset, bool moves) {
  const std::string path = PathOf(fd);
  if (!IsWatched(path)) {
    return moves ? syscall(SYS_write, fd, bytes, count)
                 : syscall(SYS_pwrite64, fd, bytes, count, offset);
  }
  const std::lock_guard<std::mutex> lock(Order());
  if (moves) {
    struct stat info = {};
    const bool appends = (fcntl(fd, F_GETFL) & O_APPEND) != 0;
    offset = appends && fstat(fd, &info) == 0 ? info.st_size : lseek(fd, 0, SEEK_CUR);
  }
  const ssize_t written = moves ? syscall(SYS_write, fd, bytes, count)
                                : syscall(SYS_pwrite64, fd, bytes, count, offset);
  if (written > 0) {
    Record("write", path, "", offset,
           std::string(static_cast<const char*>(bytes), static_cast<size_t>(written)));
  }
  return written;
}

int Sync(int fd, long call) {
  const std::string path = PathOf(fd);
  if (!IsWatched(path)) return static_cast<int>(syscall(call, fd));
  const std::lock_guard<std::mutex> lock(Order());
  struct stat info = {};
  const bool is_folder = fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
  const auto result = static_cast<int>(syscall(call, fd));
  if (result == 0) Record(is_folder ? "sync-folder" : "sync", path);
  return result;
}

int Remove(const char* path, int flags) {
  const std::string absolute = Absolute(path);
  const std::lock_guard<std::mutex> lock(Order());
  const auto result = static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, flags));
  if (result == 0 && IsWatched(absolute)) Record("remove", absolute);
  return result;
}

mode_t ModeOf(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return Open(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return Open(path, flags, mode);
}

ssize_t write(int fd, const void* bytes, size_t count) {
  return WriteAt(fd, bytes, count, 0, true);
}
ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  return WriteAt(fd, bytes, count, offset, false);
}
ssize_t pwrite64(int fd, const void* bytes, size_t count, off64_t offset) {
  return WriteAt(fd, bytes, count, offset, false);
}
int fsync(int fd) { return Sync(fd, SYS_fsync); }
int fdatasync(int fd) { return Sync(fd, SYS_fdatasync); }

int ftruncate(int fd, off_t size) noexcept {
  const std::string path = PathOf(fd);
  const std::lock_guard<std::mutex> lock(Order());
  const auto result = static_cast<int>(syscall(SYS_ftruncate, fd, size));
  if (result == 0 && IsWatched(path)) Record("truncate", path, "", size);
  return result;
}

int mkdir(const char* path, mode_t mode) noexcept {
  const std::string absolute = Absolute(path);
  const std::lock_guard<std::mutex> lock(Order());
  const auto result = static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
  if (result == 0 && IsWatched(absolute)) Record("make-folder", absolute);
  return result;
}

int rename(const char* from, const char* to) noexcept {
  const std::string absolute = Absolute(to);
  const std::lock_guard<std::mutex> lock(Order());
  const auto result = static_cast<int>(syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
  if (result == 0 && IsWatched(absolute)) Record("rename", Absolute(from), absolute);
  return result;
}

int unlink(const char* path) noexcept { return Remove(path, 0); }
int rmdir(const char* path) noexcept { return Remove(path, AT_REMOVEDIR); }
int remove(const char* path) noexcept {
  const int result = Remove(path, 0);
  return result != 0 && errno == EISDIR ? Remove(path, AT_REMOVEDIR) : result;
}

}  // extern "C"
#pragma GCC visibility pop
