#ifndef GRADWIRE_COMMON_WIRE_PROTOCOL_H_
#define GRADWIRE_COMMON_WIRE_PROTOCOL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// Of the messages in proto/gradwire/v1 and their order. Who speaks another one is refused.
// It grows with each change that one side could misread.
//   1  a worker is a rank; its model stands in Hello; nothing said the version
//   2  a worker carries ranks; layouts come after the View
//   3  a run may go on without a lost worker: Ready, Sealed, and further Views
//   4  a layout may be served: what comes back is then the model
//   5  messages of a session carry a checksum, and that of a chunk covers its header
//   6  a run may wait: Paused, which is followed by a further View
constexpr uint32_t kProtocolVersion = 6;

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

#endif  // GRADWIRE_COMMON_WIRE_PROTOCOL_H_
