#ifndef GRADWIRE_COMMON_WIRE_PROTOCOL_H_
#define GRADWIRE_COMMON_WIRE_PROTOCOL_H_

#include <cstdint>

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

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_WIRE_PROTOCOL_H_
