#ifndef GRADWIRE_COMMON_SESSION_PROBE_H_
#define GRADWIRE_COMMON_SESSION_PROBE_H_

#include <string>

#include "absl/status/statusor.h"

namespace gradwire {

// What a process finds at an address before it serves there itself.
enum class Place {
  kServed,     // something accepts connections
  kFree,       // nothing does, and it is an address of this host
  kElsewhere,  // nothing does, and it is another host's, or the name is not known
};

// Looks at `address`, "host:port". Waits for at most 2 s. InvalidArgument if it is not of
// that form.
absl::StatusOr<Place> Probe(const std::string& address);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_SESSION_PROBE_H_
