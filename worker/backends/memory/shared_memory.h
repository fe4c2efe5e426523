#ifndef GRADWIRE_WORKER_BACKENDS_MEMORY_SHARED_MEMORY_H_
#define GRADWIRE_WORKER_BACKENDS_MEMORY_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/address.h"

namespace gradwire {

// Zeroed memory that several processes of one host and user map. It has a name, but no file: the
// others find it among the open files of the process that made it, and nothing is left of it when
// the last one has ended, however it ended.
class SharedMemory {
 public:
  enum class Writer {
    kMaker,  // the others can only read it, whatever they do
    kAll,
  };

  SharedMemory() = default;
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;

  // Makes memory, which the others can map as long as this object exists. `name` must be unique in
  // the process. ResourceExhausted: the limits of this process or of the host do not allow it.
  static absl::StatusOr<SharedMemory> Make(absl::string_view name, size_t bytes, Writer writer);
  // Maps memory that process `pid` made. NotFound: none of that name is ready yet. Unavailable:
  // there is no such process. FailedPrecondition: it cannot be mapped, or has another size.
  static absl::StatusOr<SharedMemory> Open(uint32_t pid, absl::string_view name, size_t bytes,
                                           Writer writer);

  // Null if empty. Only the maker may write to memory of Writer::kMaker.
  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  absl::Status Map(int file, size_t bytes, bool writes);

  UniqueFd file_;  // of the maker
  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
};

// Addresses at which pages of several SharedMemory lie one after the other, only for reading, so
// that what several processes have written is one array. Writing to it ends the process (SIGSEGV).
// It keeps the pages, whatever becomes of the SharedMemory they are from. Not thread-safe.
class JoinedMemory {
 public:
  JoinedMemory() = default;
  ~JoinedMemory();
  JoinedMemory(const JoinedMemory&) = delete;
  JoinedMemory& operator=(const JoinedMemory&) = delete;

  // Takes the addresses; their bytes cannot be read yet. Once. ResourceExhausted: the limits of
  // this process do not allow it.
  absl::Status Reserve(size_t bytes);
  // Lets `bytes` of `from`, from `offset` on, appear at `at` as well. All three are multiples of
  // PageBytes(), within what was reserved and made. ResourceExhausted as Reserve.
  absl::Status Map(size_t at, const SharedMemory& from, size_t offset, size_t bytes);

  // Null unless Reserve succeeded.
  uint8_t* data() const { return data_; }

 private:
  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
};

// Returns the size of a page of this host's memory.
size_t PageBytes();

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_MEMORY_SHARED_MEMORY_H_
