#ifndef GRADWIRE_COMMON_PROCESS_GROUP_GUARD_H_
#define GRADWIRE_COMMON_PROCESS_GROUP_GUARD_H_

#include <sys/types.h>

namespace gradwire {

// A process beside this one that kills process groups when this one dies, even by
// SIGKILL. The kernel tells only the children that their parent has died; this
// reaches what they have started. Not thread-safe.
class GroupGuard {
 public:
  GroupGuard();
  // Leaves the groups alone.
  ~GroupGuard();
  GroupGuard(const GroupGuard&) = delete;
  GroupGuard& operator=(const GroupGuard&) = delete;

  void Add(pid_t group) { Tell(group); }
  // To be called while the id cannot be another group's yet.
  void Remove(pid_t group) { Tell(-group); }

 private:
  void Tell(pid_t message);

  int socket_ = -1;
  pid_t pid_ = -1;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_PROCESS_GROUP_GUARD_H_
