#ifndef GRADWIRE_COMMON_BASE_HOST_H_
#define GRADWIRE_COMMON_BASE_HOST_H_

#include <string>

namespace gradwire {

// Cores that this process may use; 1 or more.
int UsableCores();

// Equal for processes that share cores, different for others: the id that Linux draws when
// it starts, which containers and network namespaces of one machine share. The host's name
// if there is none.
std::string HostId();

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_HOST_H_
