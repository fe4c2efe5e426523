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

// All addresses of `address`, in the system's order of preference; never empty.
// `socket_type` is SOCK_STREAM or SOCK_DGRAM. Unavailable if the name is not known.
absl::StatusOr<AddressList> Resolve(const HostPort& address, int socket_type);

// The numeric form; port 0 and an empty host if it is neither IPv4 nor IPv6.
HostPort NumericAddress(const sockaddr* address, socklen_t length);

// What strerror says, in lower case, as part of a sentence: "connection refused".
std::string ErrorWords(int error);

// The numeric address, without port, that this host uses towards `coordinator`
// ("host:port"): the one on which hosts of the coordinator's network can reach
// this one. Sends nothing.
//   InvalidArgument  `coordinator` is not of that form
//   Unavailable      the name is unknown, or there is no route
absl::StatusOr<std::string> LocalAddressTowards(absl::string_view coordinator);

// Where a process listens that was told `listen` ("host:port"); if that is empty, on a free port of
// the address of above alone, or with a host `advertise`, which may be any of this host's, on all.
// Errors as above.
absl::StatusOr<std::string> ListenAddressOf(const std::string& listen, const std::string& advertise,
                                            const std::string& coordinator);

// "host:port" at which others reach what this process serves at `bound`
// ("0.0.0.0:4711"): with host `advertise`, or, if that is empty, with the address
// of above. Says in the log which one and why. Errors as above.
absl::StatusOr<std::string> AdvertisedAddress(const std::string& advertise,
                                              const std::string& coordinator,
                                              const std::string& bound);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_SESSION_LOCAL_ADDRESS_H_
