#ifndef GRADWIRE_COMMON_BASE_HOST_H_
#define GRADWIRE_COMMON_BASE_HOST_H_

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

// Cores that this process may keep busy, 1 or more: those that it is bound to (mpirun, Slurm,
// taskset), or fewer where its control group limits CPU time (containers).
int UsableCores();

// Equal for processes that share those cores, different for others. It names the id that Linux
// draws when it starts, which containers and network namespaces of one machine share (or else the
// host's name), the cores, and the control group if that limits. So processes that a launcher
// bound to cores of their own share none.
std::string CoresId();

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_HOST_H_
