#include "common/base/host.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace gradwire {
namespace {

// Microseconds of CPU time in each period; without a limit "max" (version 2) or -1 (version 1),
// which come out as no number above 0.
double Number(std::istream&& file) {
  double number = 0;
  return file >> number ? number : 0;
}

double CoresOf(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period)) {
    quota = Number(std::ifstream(folder + "/cpu.cfs_quota_us"));
    period = Number(std::ifstream(folder + "/cpu.cfs_period_us"));
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

// `group` and all around it, up to the root. In a container the root may be the group itself,
// and what is written before it not be there.
void Tighten(const std::string& hierarchy, std::string group, std::optional<CpuQuota>* tightest) {
  for (;;) {
    const double cores = CoresOf(hierarchy + group);
    if (cores > 0 && (!*tightest || cores < (*tightest)->cores)) *tightest = {cores, group};
    if (group.size() <= 1) return;
    group.resize(group.rfind('/'));
  }
}

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

std::optional<CpuQuota> FindCpuQuota(const std::string& own_groups, const std::string& mounted) {
  std::optional<CpuQuota> tightest;
  for (absl::string_view line : absl::StrSplit(own_groups, '\n')) {
    // "0::/group" of version 2, "4:cpu,cpuacct:/group" of version 1.
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() < 3 || !absl::StartsWith(parts[2], "/")) continue;
    if (parts[1].empty()) {
      Tighten(mounted, parts[2], &tightest);
      Tighten(mounted + "/unified", parts[2], &tightest);
    } else if (absl::c_linear_search(absl::StrSplit(parts[1], ','), "cpu")) {
      Tighten(absl::StrCat(mounted, "/", parts[1]), parts[2], &tightest);
      Tighten(mounted + "/cpu", parts[2], &tightest);
    }
  }
  return tightest;
}

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
