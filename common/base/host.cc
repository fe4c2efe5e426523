#include "common/base/host.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/cpu_quota.h"

namespace gradwire {
namespace {

std::string HostId() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  if (!id.empty()) return id;
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

// Cores that this process is bound to, or all: how many, and which ("0,1,4").
struct BoundCores {
  int count = 0;
  std::string names;
};

BoundCores OwnCores() {
  cpu_set_t cores;
  // It fails with more cores than the set can name.
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) {
    return {std::max(1, static_cast<int>(std::thread::hardware_concurrency())), "all"};
  }
  BoundCores own;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &cores)) continue;
    absl::StrAppend(&own.names, own.count++ > 0 ? "," : "", core);
  }
  return own;
}

// If it leaves less than `cores`.
std::optional<CpuQuota> OwnQuota(int cores) {
  std::ifstream file("/proc/self/cgroup");
  const std::string groups{std::istreambuf_iterator<char>(file), {}};
  std::optional<CpuQuota> quota = FindCpuQuota(groups);
  if (quota && quota->cores >= cores) quota.reset();
  return quota;
}

// Groups are counted from it: in containers, all may have the name "/".
std::string GroupNamespace() {
  char name[64] = {};
  return readlink("/proc/self/ns/cgroup", name, sizeof(name) - 1) > 0 ? name : "";
}

}  // namespace

int UsableCores() {
  const int cores = std::max(1, OwnCores().count);
  const std::optional<CpuQuota> quota = OwnQuota(cores);
  return quota ? std::max(1, static_cast<int>(quota->cores)) : cores;
}

std::string CoresId() {
  const BoundCores cores = OwnCores();
  const std::optional<CpuQuota> quota = OwnQuota(cores.count);
  const std::string group = quota ? absl::StrCat(" of ", GroupNamespace(), quota->group) : "";
  return absl::StrCat(HostId(), " cores ", cores.names, group);
}

}  // namespace gradwire
