#ifndef GRADWIRE_COMMON_RPC_REACH_H_
#define GRADWIRE_COMMON_RPC_REACH_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/options/security_options.h"

namespace gradwire {

// Whether a server can be reached from public networks.

// Returns whether the address is known only on this host and in private networks: loopback,
// link-local, RFC 1918, RFC 4193, RFC 6598, and addresses for examples. False if it is not a
// numeric address.
bool IsPrivateAddress(absl::string_view numeric);

// Returns the numeric addresses of this host's interfaces.
std::vector<std::string> OwnAddresses();

// Returns a public address of a server that listens on `host`; none if it has none. A name counts
// as its present addresses; 0.0.0.0 and :: count as all of `own`.
absl::optional<std::string> PublicAddressOf(const std::string& host,
                                            const std::vector<std::string>& own);

// Checks that a server on `listen` ("host:port"; "" and "off": no server) cannot be reached from
// public networks, on a host with the addresses `own`.
//   InvalidArgument  it can; has the address and the remedies. Or `listen` is malformed.
absl::Status CheckReach(absl::string_view option, absl::string_view listen,
                        const std::vector<std::string>& own = OwnAddresses());

// The same for a program with the options `security`, which may allow it.
absl::Status CheckReach(absl::string_view option, absl::string_view listen,
                        const SecurityOptions& security);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_RPC_REACH_H_
