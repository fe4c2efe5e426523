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

// What a process finds at an address before it serves there itself.
enum class AddressUse {
  kServed,     // something accepts connections
  kFree,       // nothing does, and it is an address of this host
  kElsewhere,  // nothing does, and it is another host's, or the name is not known
};

// Looks at `address`, "host:port". Waits for at most 2 s. InvalidArgument if it is not of
// that form.
absl::StatusOr<AddressUse> Probe(const std::string& address);

// A connected channel to the coordinator at `address` ("host:port"), with a TCP
// connection of its own, for which no proxy is used. While nobody answers it
// tries again after 0.1, 0.2, … 2 s, and says so in the log.
//   InvalidArgument  `address` is not of that form
//   Unavailable      no answer within `timeout`; names address, cause, attempts
//   Cancelled        `cancelled` returned true; it is asked every 0.1 s
absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectToCoordinator(
    const std::string& address, absl::Duration timeout, const std::function<bool()>& cancelled,
    const Security& security = {});

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_SESSION_CONNECT_H_
