#ifndef GRADWIRE_COMMON_SESSION_CONNECT_H_
#define GRADWIRE_COMMON_SESSION_CONNECT_H_

#include <grpcpp/channel.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/security.h"

namespace gradwire {

// State of an address before a process serves there itself.
enum class AddressUse {
  kServed,     // a process accepts connections
  kFree,       // no process does, and the address belongs to this host
  kElsewhere,  // no process does, and the address is another host's or unknown
};

// Checks `address`, "host:port"; takes at most 2 s. InvalidArgument if it is malformed.
absl::StatusOr<AddressUse> Probe(const std::string& address);

// Returns a channel connected to the coordinator at `address` ("host:port"), over its own TCP
// connection without a proxy. Retries after 0.1, 0.2, … 2 s, and logs that.
//   InvalidArgument  `address` is malformed
//   Unavailable      no answer within `timeout`; has address, cause, attempts
//   Cancelled        `cancelled` returned true; checked every 0.1 s
absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectToCoordinator(
    const std::string& address, absl::Duration timeout, const std::function<bool()>& cancelled,
    const Security& security = {});

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_SESSION_CONNECT_H_
