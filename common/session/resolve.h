#ifndef GRADWIRE_COMMON_SESSION_RESOLVE_H_
#define GRADWIRE_COMMON_SESSION_RESOLVE_H_

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

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_SESSION_RESOLVE_H_
