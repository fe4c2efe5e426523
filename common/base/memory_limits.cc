#include "common/base/memory_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/str_format.h"
#include "common/base/control_groups.h"

namespace gradwire {
namespace {

constexpr uint64_t kNoLimit = MemoryLimits::kNoLimit;
// Version 1 of control groups has no word for it, but a number of pages near 2^63 bytes.
constexpr uint64_t kUnlimited = uint64_t{1} << 62;

uint64_t ResourceLimit(int resource) {
  rlimit limit = {};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNoLimit;
  return limit.rlim_cur;
}

// Returns the number after `word` in a file, 0 if there is none.
uint64_t NumberAfter(const std::string& path, const std::string& word) {
  std::ifstream file(path);
  std::string found;
  uint64_t number = 0;
  while (file >> found) {
    if (found == word && file >> number) return number;
  }
  return 0;
}

// Returns the number in a file; kNoLimit for a word such as "max", or if it cannot be read.
uint64_t NumberIn(const std::string& path) {
  uint64_t number = 0;
  return std::ifstream(path) >> number ? number : kNoLimit;
}

uint64_t Difference(uint64_t limit, uint64_t used) { return limit - std::min(limit, used); }

// `limit` and `used` are the names of a version's files.
uint64_t LeftOf(const std::string& folder, const char* limit, const char* used,
                const char* inactive) {
  const uint64_t most = NumberIn(folder + limit);
  const uint64_t now = NumberIn(folder + used);
  if (most >= kUnlimited || now == kNoLimit) return kNoLimit;
  return Difference(most, Difference(now, NumberAfter(folder + "/memory.stat", inactive)));
}

}  // namespace

uint64_t GroupMemoryLeft(const std::string& own_groups, const std::string& mounted) {
  uint64_t left = kNoLimit;
  for (const ControlGroup& group : GroupsOf(own_groups, "memory", mounted)) {
    const std::string folder = group.folder();
    left = std::min(left, LeftOf(folder, "/memory.max", "/memory.current", "inactive_file"));
    left = std::min(left, LeftOf(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                 "total_inactive_file"));
  }
  return left;
}

MemoryLimits OwnMemoryLimits() {
  MemoryLimits limits;
  limits.file = ResourceLimit(RLIMIT_FSIZE);
  const uint64_t address = ResourceLimit(RLIMIT_AS);
  if (address != kNoLimit) {
    limits.address = Difference(address, NumberAfter("/proc/self/status", "VmSize:") * 1024);
  }
  limits.group = GroupMemoryLeft(OwnGroups());
  const uint64_t available = NumberAfter("/proc/meminfo", "MemAvailable:") * 1024;
  if (available > 0) limits.host = available;
  return limits;
}

std::string MemoryText(uint64_t bytes) {
  if (bytes == kNoLimit) return "no limit";
  return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace gradwire
