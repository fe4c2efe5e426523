#ifndef GRADWIRE_COMMON_RPC_REACH_H_
#define GRADWIRE_COMMON_RPC_REACH_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/options/security_options.h"

namespace gradwire {

// From how far away a server can be reached.

// Whether only this host and private networks know the address: loopback, link-local, those of
// RFC 1918, RFC 4193 and RFC 6598, and those of examples. False for what is no numeric address.
bool IsPrivateAddress(absl::string_view numeric);

// The numeric addresses of this host's interfaces.
std::vector<std::string> OwnAddresses();

// An address at which anybody could reach what listens at `host`; none if there is none. A name
// counts as what it stands for now, and 0.0.0.0 and :: as all of `own`.
absl::optional<std::string> PublicAddressOf(const std::string& host,
                                            const std::vector<std::string>& own);

// That anybody could not reach what listens at `listen` ("host:port"; "" and "off": nothing does)
// on a host with the addresses `own`.
//   InvalidArgument  anybody could: says where, and what to do. Or it is not of that form.
absl::Status CheckReach(absl::string_view option, absl::string_view listen,
                        const std::vector<std::string>& own = OwnAddresses());

// The same of a program with the options `security`, which may allow it.
absl::Status CheckReach(absl::string_view option, absl::string_view listen,
                        const SecurityOptions& security);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_RPC_REACH_H_
