// SharedMemory for workers that are threads of one process: all of them get the maker's own
// addresses. ThreadSanitizer follows addresses, and takes two mappings of a page for different
// memory, so with the real one it would see neither the workers' data nor their atomics meet.
#include <cstdlib>
#include <map>
#include <new>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "worker/backends/memory/shared_memory.h"

namespace gradwire {
namespace {

// Memory stays until the program ends, as that of a lost worker does while others map it.
Mutex mutex;
std::map<std::string, uint8_t*>& MadeMemory() {
  static auto* const made = new std::map<std::string, uint8_t*>;
  return *made;
}

}  // namespace

size_t PageBytes() { return 4096; }

SharedMemory::~SharedMemory() = default;

SharedMemory::SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

absl::StatusOr<SharedMemory> SharedMemory::Make(absl::string_view name, size_t bytes, Writer) {
  SharedMemory memory;
  memory.data_ = static_cast<uint8_t*>(calloc((bytes + 63) / 64, 64));
  if (memory.data_ == nullptr) return absl::ResourceExhaustedError("no memory");
  memory.bytes_ = bytes;
  MutexLock lock(&mutex);
  MadeMemory()[std::string(name)] = memory.data_;
  return memory;
}

absl::StatusOr<SharedMemory> SharedMemory::Open(uint32_t, absl::string_view name, size_t bytes,
                                                Writer) {
  MutexLock lock(&mutex);
  const auto found = MadeMemory().find(std::string(name));
  if (found == MadeMemory().end()) return absl::NotFoundError("not made yet");
  SharedMemory memory;
  memory.data_ = found->second;
  memory.bytes_ = bytes;
  return memory;
}

// Addresses cannot be joined here, but those of a single piece need not be.
JoinedMemory::~JoinedMemory() = default;
absl::Status JoinedMemory::Reserve(size_t) { return absl::OkStatus(); }
absl::Status JoinedMemory::Map(size_t at, const SharedMemory& from, size_t offset, size_t) {
  uint8_t* const begin = from.data() + offset - at;
  if (data_ != nullptr && data_ != begin) return absl::ResourceExhaustedError("several pieces");
  data_ = begin;
  return absl::OkStatus();
}

}  // namespace gradwire
