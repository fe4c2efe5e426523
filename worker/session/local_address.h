#ifndef GRADWIRE_WORKER_SESSION_LOCAL_ADDRESS_H_
#define GRADWIRE_WORKER_SESSION_LOCAL_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// The numeric address, without port, that this host uses towards `coordinator`
// ("host:port"): the one on which hosts of the coordinator's network can reach
// this one. Sends nothing.
//   InvalidArgument  `coordinator` is not of that form
//   Unavailable      the name is unknown, or there is no route
absl::StatusOr<std::string> LocalAddressTowards(absl::string_view coordinator);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_SESSION_LOCAL_ADDRESS_H_
