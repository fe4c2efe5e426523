#ifndef GRADWIRE_COMMON_SESSION_LOCAL_ADDRESS_H_
#define GRADWIRE_COMMON_SESSION_LOCAL_ADDRESS_H_

#include <netdb.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/address.h"

namespace gradwire {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Returns all addresses of `address`, in the system's order of preference; never empty.
// `socket_type` is SOCK_STREAM or SOCK_DGRAM. Unavailable if the name is unknown.
absl::StatusOr<AddressList> Resolve(const HostPort& address, int socket_type);

// Returns the numeric form; port 0 and an empty host if it is neither IPv4 nor IPv6.
HostPort NumericAddress(const sockaddr* address, socklen_t length);

// Returns strerror's text in lower case, as part of a sentence: "connection refused".
std::string ErrorWords(int error);

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
