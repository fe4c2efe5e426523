#ifndef GRADWIRE_COMMON_WIRE_MESSAGE_CHECKSUM_H_
#define GRADWIRE_COMMON_WIRE_MESSAGE_CHECKSUM_H_

#include "absl/status/status.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// The checksum of a session's message, see membership.proto: TCP's own lets one of 65,536 broken
// packets through.

// Gives the message its checksum; the last thing before it is sent.
void SetChecksum(v1::WorkerMessage* message);
void SetChecksum(v1::CoordinatorMessage* message);

// Takes the checksum off a message that was received. DataLoss if it is another one's, or missing:
// says what was got and expected.
absl::Status TakeChecksum(v1::WorkerMessage* message);
absl::Status TakeChecksum(v1::CoordinatorMessage* message);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_WIRE_MESSAGE_CHECKSUM_H_
