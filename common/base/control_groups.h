#ifndef GRADWIRE_COMMON_BASE_CONTROL_GROUPS_H_
#define GRADWIRE_COMMON_BASE_CONTROL_GROUPS_H_

#include <string>
#include <vector>

namespace gradwire {

// A control group whose limits apply to a process.
struct ControlGroup {
  std::string hierarchy;  // folder
  std::string name;       // "/pod/container"; the root is "" or "/"

  std::string folder() const { return hierarchy + name; }
};

// Returns a process's groups for `controller` ("cpu", "memory") and their ancestors, in hierarchies
// of version 1, 2 or both. In a container the group itself may be the root, and the folder of
// another one may not exist. `own_groups`: the process's /proc/PID/cgroup; `mounted`: mount point
// of the hierarchies.
std::vector<ControlGroup> GroupsOf(const std::string& own_groups, const std::string& controller,
                                   const std::string& mounted = "/sys/fs/cgroup");

// Returns this process's /proc/self/cgroup; empty if it cannot be read.
std::string OwnGroups();

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_CONTROL_GROUPS_H_
