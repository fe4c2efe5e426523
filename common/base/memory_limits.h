#ifndef GRADWIRE_COMMON_BASE_MEMORY_LIMITS_H_
#define GRADWIRE_COMMON_BASE_MEMORY_LIMITS_H_

#include <cstdint>
#include <limits>
#include <string>

namespace gradwire {

// Memory that a process may still get, in bytes; kNoLimit: no limit is known.
struct MemoryLimits {
  static constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

  uint64_t file = kNoLimit;     // a single file, in memory or not (ulimit -f)
  uint64_t address = kNoLimit;  // mapped, by this process (ulimit -v)
  uint64_t group = kNoLimit;    // held, by all processes of its control group (containers)
  uint64_t host = kNoLimit;     // available on the host

  friend bool operator==(const MemoryLimits& a, const MemoryLimits& b) {
    return a.file == b.file && a.address == b.address && a.group == b.group && a.host == b.host;
  }
};

// Returns the limits of this process now.
MemoryLimits OwnMemoryLimits();

// Returns the least memory that is left to one of a process's control groups or their ancestors.
// Files that the kernel may drop count as left. Arguments: as for GroupsOf.
uint64_t GroupMemoryLeft(const std::string& own_groups,
                         const std::string& mounted = "/sys/fs/cgroup");

// Returns "12.3 MB", or "no limit".
std::string MemoryText(uint64_t bytes);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_MEMORY_LIMITS_H_
