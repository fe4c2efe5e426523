#ifndef GRADWIRE_COMMON_BASE_LISTENING_H_
#define GRADWIRE_COMMON_BASE_LISTENING_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/base/address.h"
#include "common/base/descriptor.h"

namespace gradwire {

// Sockets that listen.
struct Listening {
  std::vector<Descriptor> sockets;  // non-blocking, all of one port; not empty
  HostPort address;                 // as asked for, with the port that was bound
};

// Listens at all addresses that `address` stands for; 0.0.0.0 and :: stand for all of this host,
// of both kinds. Port 0 picks a free one; a port in use is refused, not shared.
// FailedPrecondition if none can be bound: says why, as part of a sentence.
absl::StatusOr<Listening> ListenAt(const HostPort& address);

// What came of an attempt to accept.
enum class Accepted {
  kConnection,
  kNobody,       // who was there is gone, or nobody was
  kNoResources,  // descriptors or memory; worth another try after a while
};
// Takes the next connection of a listening socket; it is non-blocking, with TCP_NODELAY.
Accepted Accept(const Descriptor& listening, Descriptor* connection);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_LISTENING_H_
