#ifndef GRADWIRE_COMMON_BASE_CPU_QUOTA_H_
#define GRADWIRE_COMMON_BASE_CPU_QUOTA_H_

#include <optional>
#include <string>

namespace gradwire {

// A limit of CPU time, as containers have (docker --cpus, Kubernetes' limits).
struct CpuQuota {
  double cores = 0;   // that may be busy on average
  std::string group;  // the control group whose members share them
};

// The tightest of a process's control groups and of those around them; none if there is no limit.
// `own_groups`: the process's /proc/PID/cgroup; `mounted`: where the hierarchies are, of
// version 1, of version 2, or of both. What cannot be read limits nothing.
std::optional<CpuQuota> FindCpuQuota(const std::string& own_groups,
                                     const std::string& mounted = "/sys/fs/cgroup");

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_CPU_QUOTA_H_
