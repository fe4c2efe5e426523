#include "worker/backends/memory/shared_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

// Older headers lack it; Linux has it since 5.1.
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace gradwire {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

// Opens the file of process `pid` whose link is `link`; -1 with errno.
int OpenFileOf(uint32_t pid, const std::string& link, int flags) {
  const std::string path = absl::StrCat("/proc/", pid, "/fd");
  const std::unique_ptr<DIR, CloseFolder> folder(opendir(path.c_str()));
  if (folder == nullptr) return -1;
  while (const dirent* entry = readdir(folder.get())) {
    char target[PATH_MAX];
    const std::string file = absl::StrCat(path, "/", entry->d_name);
    const ssize_t length = readlink(file.c_str(), target, sizeof(target));
    if (length < 0 || absl::string_view(target, length) != link) continue;
    return open(file.c_str(), flags | O_CLOEXEC);
  }
  errno = EAGAIN;
  return -1;
}

// /proc shows a process that has ended, but whose parent has not asked for it yet, without files.
bool HasEnded(int error) { return error == ENOENT || error == ESRCH; }

}  // namespace

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

absl::Status SharedMemory::Map(int file, size_t bytes, bool writes) {
  const int protection = writes ? PROT_READ | PROT_WRITE : PROT_READ;
  void* data = mmap(nullptr, bytes, protection, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map ", bytes, " bytes of shared memory: ", std::strerror(errno)));
  }
  data_ = static_cast<uint8_t*>(data);
  bytes_ = bytes;
  return absl::OkStatus();
}

absl::StatusOr<SharedMemory> SharedMemory::Make(absl::string_view name, size_t bytes,
                                                Writer writer) {
  // Beyond this limit ftruncate would end the process by SIGXFSZ.
  rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot make ", bytes, " bytes of shared memory: ulimit -f allows ", limit.rlim_cur));
  }
  SharedMemory memory;
  memory.file_.Reset(memfd_create(std::string(name).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int file = memory.file_.get();
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot make ", bytes, " bytes of shared memory: ", std::strerror(errno)));
  }
  if (absl::Status mapped = memory.Map(file, bytes, true); !mapped.ok()) return mapped;
  // Processes that open it from now on cannot write to it.
  const int seals =
      F_SEAL_SHRINK | F_SEAL_GROW | (writer == Writer::kMaker ? F_SEAL_FUTURE_WRITE : 0);
  if (fcntl(file, F_ADD_SEALS, seals | F_SEAL_SEAL) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot seal shared memory: ", std::strerror(errno)));
  }
  return memory;
}

absl::StatusOr<SharedMemory> SharedMemory::Open(uint32_t pid, absl::string_view name, size_t bytes,
                                                Writer writer) {
  const bool writes = writer == Writer::kAll;
  const std::string link = absl::StrCat("/memfd:", name, " (deleted)");
  const UniqueFd file(OpenFileOf(pid, link, writes ? O_RDWR : O_RDONLY));
  if (file.get() < 0) {
    const std::string what = absl::StrCat("shared memory of process ", pid, ": ");
    if (errno == EAGAIN) return absl::NotFoundError(absl::StrCat(what, "it has no ", name));
    if (HasEnded(errno)) return absl::UnavailableError(absl::StrCat(what, "it does not exist"));
    return absl::FailedPreconditionError(absl::StrCat(what, std::strerror(errno)));
  }
  // Its maker may be between making and sealing it.
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals >= 0 && (seals & F_SEAL_SEAL) == 0) {
    return absl::NotFoundError(
        absl::StrCat("shared memory ", name, " of process ", pid, " is not ready"));
  }
  struct stat found = {};
  if (fstat(file.get(), &found) != 0 || found.st_size != static_cast<off_t>(bytes)) {
    return absl::FailedPreconditionError(absl::StrCat("shared memory ", name, " of process ", pid,
                                                      ": got ", found.st_size, " bytes, expected ",
                                                      bytes));
  }
  SharedMemory memory;
  if (absl::Status mapped = memory.Map(file.get(), bytes, writes); !mapped.ok()) return mapped;
  return memory;
}

size_t PageBytes() {
  static const auto kBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return kBytes;
}

JoinedMemory::~JoinedMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

absl::Status JoinedMemory::Reserve(size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot reserve ", bytes, " bytes of addresses: ", std::strerror(errno)));
  }
  data_ = static_cast<uint8_t*>(data);
  bytes_ = bytes;
  return absl::OkStatus();
}

absl::Status JoinedMemory::Map(size_t at, const SharedMemory& from, size_t offset, size_t bytes) {
  // With an old size of 0 the pages stay where they are and appear at the new address, too.
  void* const there =
      mremap(from.data() + offset, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, data_ + at);
  if (there == MAP_FAILED || mprotect(there, bytes, PROT_READ) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot map ", bytes, " bytes of shared memory again: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace gradwire
