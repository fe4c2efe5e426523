#ifndef GRADWIRE_COMMON_WIRE_PROTOCOL_H_
#define GRADWIRE_COMMON_WIRE_PROTOCOL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// Version of the messages in proto/gradwire/v1 and their order. A peer with another version is
// refused. It increases with each change that one side could misread.
//   1  a worker is a rank; its model is in Hello; no version field
//   2  a worker carries ranks; layouts come after the View
//   3  a run may continue without a lost worker: Ready, Sealed, and further Views
//   4  a layout may be served: the results are then the model
//   5  messages of a session carry a checksum, and that of a chunk covers its header
//   6  a run may wait: Paused, followed by a further View
//   7  a run may keep checkpoints, and may begin with a later step than 0;
//      Ready reports the samples of its step; the ring's means enter each host once
//   8  a chunk between two workers of a host may name a slot of memory instead of its payload
//   9  Saved names the generation of its copies
constexpr uint32_t kProtocolVersion = 9;

// The checksum of a session's message, see membership.proto. TCP's own checksum misses one of
// 65,536 corrupt packets, and HTTP/2 ignores a frame with an unknown type or stream.

// Sets the checksum of the message with index `number` in its direction, counted from 0. Must be
// the last step before sending.
void SetChecksum(uint64_t number, v1::WorkerMessage* message);
void SetChecksum(uint64_t number, v1::CoordinatorMessage* message);

// Removes and checks the checksum of the received message with index `number`. DataLoss, with both
// values, if it does not match, is missing, or an earlier message was lost.
absl::Status TakeChecksum(uint64_t number, v1::WorkerMessage* message);
absl::Status TakeChecksum(uint64_t number, v1::CoordinatorMessage* message);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_WIRE_PROTOCOL_H_
