#ifndef GRADWIRE_COMMON_SESSION_LOCAL_ADDRESS_H_
#define GRADWIRE_COMMON_SESSION_LOCAL_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// Returns the numeric address, without port, that this host uses towards `coordinator`
// ("host:port"). Hosts in the coordinator's network reach this host there. Sends nothing.
//   InvalidArgument  `coordinator` is malformed
//   Unavailable      the name is unknown, or no route exists
absl::StatusOr<std::string> LocalAddressTowards(absl::string_view coordinator);

// Returns where a process must listen: at `listen` ("host:port"). If that is empty, on a free port:
// on all addresses if `advertise` is set, which may be any address of this host, else only on
// LocalAddressTowards. Errors as above.
absl::StatusOr<std::string> ListenAddressOf(const std::string& listen, const std::string& advertise,
                                            const std::string& coordinator);

// Returns "host:port" by which others reach the server bound to `bound` ("0.0.0.0:4711"). Its host
// is `advertise` or, if that is empty, LocalAddressTowards. Logs the address and the reason. Errors
// as above.
absl::StatusOr<std::string> AdvertisedAddress(const std::string& advertise,
                                              const std::string& coordinator,
                                              const std::string& bound);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_SESSION_LOCAL_ADDRESS_H_
