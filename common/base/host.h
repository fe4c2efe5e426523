#ifndef GRADWIRE_COMMON_BASE_HOST_H_
#define GRADWIRE_COMMON_BASE_HOST_H_

#include <string>

namespace gradwire {

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
