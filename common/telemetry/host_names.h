#ifndef GRADWIRE_COMMON_TELEMETRY_HOST_NAMES_H_
#define GRADWIRE_COMMON_TELEMETRY_HOST_NAMES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gradwire {

// Whether `host` of a request ("node0:9400") may mean this server. A page of the web can let a
// name of its own stand for any address, and so have a browser within the network read what is
// served there ("DNS rebinding"); it can do that only with a name that the public DNS knows. So
// these are ours: IP addresses, names without a dot, those under the domains that the public
// DNS leaves alone, this host's own name, and `names`. An empty host, too: no browser sends it.
bool IsOurs(absl::string_view host, const std::vector<std::string>& names);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_HOST_NAMES_H_
