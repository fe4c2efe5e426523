#ifndef GRADWIRE_COMMON_WIRE_MESSAGE_CHECKSUM_H_
#define GRADWIRE_COMMON_WIRE_MESSAGE_CHECKSUM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// The checksum of a session's message, see membership.proto: TCP's own lets one of 65,536 broken
// packets through, and HTTP/2 passes over a frame whose kind or stream it does not know.

// Gives the message its checksum, as the one that is sent as number `number` of its direction, from
// 0; the last thing before it is sent.
void SetChecksum(uint64_t number, v1::WorkerMessage* message);
void SetChecksum(uint64_t number, v1::CoordinatorMessage* message);

// Takes the checksum off a message that was received as number `number`. DataLoss if it is another
// one's, or missing, or a message before it was lost: says what was got and expected.
absl::Status TakeChecksum(uint64_t number, v1::WorkerMessage* message);
absl::Status TakeChecksum(uint64_t number, v1::CoordinatorMessage* message);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_WIRE_MESSAGE_CHECKSUM_H_
